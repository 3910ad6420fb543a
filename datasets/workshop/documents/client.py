"""skerrit 2.2: talk to a Skerrit S3 or S3L over its serial link."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

BAUD = 250_000
MAX_LINE = 128
"""Bytes, with sequence number, checksum and line feed. The board answers E02 to anything longer."""

TIMEOUT_S = 2.0
RETRIES = 3
FIRST_PAUSE_S = 0.1
POLL_S = 0.2
HEARTBEAT_S = 1.0
MIN_FIRMWARE = (4, 2)
JOG_MAX = 1_000
PLATE_MM = 15.02
"""Thickness of touch plate TP-15. It was 10.00, that of TP-10, up to skerrit 2.0."""


class SkerritError(Exception):
    """Anything that goes wrong between the host and the machine."""


class LinkError(SkerritError):
    """No answer, or only damaged ones, after all retries."""


class TooOldError(SkerritError):
    """The firmware is older than this library understands."""


class AlarmError(SkerritError):
    """The machine stopped with an alarm; ``code`` is its number, ``clears`` whether UNLOCK is enough."""

    NEEDS_POWER_CYCLE = frozenset({14, 16, 17, 18, 19, 22})

    def __init__(self, code: int) -> None:
        self.code = code
        self.clears = code not in self.NEEDS_POWER_CYCLE
        super().__init__(f"alarm E{code:02d}")


class Port(Protocol):
    """What the library needs of a serial port."""

    def write(self, data: bytes) -> int:
        """Send bytes."""

    def readline(self, timeout: float) -> bytes:
        """Return one line, or nothing when the time is up."""


@dataclass(frozen=True, slots=True)
class Status:
    """One status line of the machine."""

    state: str
    position: tuple[float, float, float]
    rpm: int
    celsius: int
    hours: float


def crc8(data: bytes) -> int:
    """Return the CRC-8 of ``data``: polynomial 0x07, start value 0x00, nothing reflected."""
    crc = 0x00
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = ((crc << 1) ^ 0x07) & 0xFF if crc & 0x80 else crc << 1
    return crc


class Machine:
    """An open link to one machine."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.sequence = 0
        version = self.version()
        if version < MIN_FIRMWARE:
            raise TooOldError(f"Plover {version[0]}.{version[1]} is too old; update to 4.2 or later")

    def send(self, command: str) -> str:
        """Send one command and return the text after ``ok``; damaged lines are sent again with the same number."""
        body = f"N{self.sequence} {command}".encode("ascii")
        line = body + f"*{crc8(body):02X}\n".encode("ascii")
        if len(line) > MAX_LINE:
            raise ValueError(f"the command makes a line of {len(line)} bytes; {MAX_LINE} are allowed")
        for attempt in range(RETRIES + 1):
            self.port.write(line)
            answer = self.port.readline(TIMEOUT_S).decode("ascii", "replace").split(maxsplit=2)
            if answer[:1] == ["ok"]:
                self.sequence = (self.sequence + 1) % 256
                return answer[2] if len(answer) == 3 else ""
            if answer[:1] == ["err"] and answer[1] != "3":
                raise AlarmError(int(answer[1]))
            time.sleep(FIRST_PAUSE_S * 2**attempt)
        raise LinkError(f"no good answer to {command!r} after {RETRIES} retries")

    def version(self) -> tuple[int, int]:
        """Return major and minor number of the firmware."""
        major, minor = self.send("VER").split(".")[:2]
        return int(major), int(minor)

    def status(self) -> Status:
        """Return where the machine is and what it is doing."""
        state, position, rpm, celsius, hours = self.send("?").strip("<>").split("|")
        x, y, z = (float(value) for value in position.split(","))
        return Status(state, (x, y, z), int(rpm), int(celsius), float(hours))

    def home(self) -> None:
        """Find the switches: Z first, so that the tool is clear of the work, then X and Y together."""
        self.send("HOME Z")
        self.send("HOME XY")
        self.wait_idle(60.0)

    def jog(self, axis: str, distance: float, feed: int = 600) -> None:
        """Move one axis by hand; ``feed`` above 1,000 mm/min is refused."""
        if feed > JOG_MAX:
            raise ValueError(f"a jog feed of {feed} mm/min is too fast; give at most {JOG_MAX}")
        self.send(f"MOVE {axis}{distance:+.3f} F{feed} R")

    def probe_z(self, plate: float = PLATE_MM, *, feed: int = 60, travel: float = 25.0) -> float:
        """Touch the plate, set Z to its thickness, draw back 2 mm, and return the height found."""
        height = float(self.send(f"PROBE Z-{travel:.2f} F{feed}"))
        self.send(f"SET z.zero {height - plate:.3f}")
        return height

    def wait_idle(self, limit_s: float) -> None:
        """Ask five times a second until the machine is idle."""
        for _ in range(round(limit_s / POLL_S)):
            if self.status().state == "IDLE":
                return
            time.sleep(POLL_S)
        raise LinkError(f"the machine is still busy after {limit_s:g} s")

    def run(self, job: Path) -> Iterator[int]:
        """Send the lines of a job one by one and yield how many are done; comments and blank lines are skipped."""
        self.send("HOLD OFF")
        for done, raw in enumerate(job.read_text(encoding="ascii").splitlines(), start=1):
            command = raw.split(";", 1)[0].strip()
            if command:
                self.send(command)
            yield done
