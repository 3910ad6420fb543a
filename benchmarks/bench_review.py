"""Review 100 drafted questions by keyboard in headless Chromium, kill browser and process, review with two at once.

python benchmarks/bench_review.py [--questions N] [--kills N] [--pictures FOLDER]

The questions are those of `law`, as if a machine had drafted them. Needs Chromium with its driver, and
`pip install selenium`. After everything the files of the data set are compared with what was pressed, and with what the
page had shown to be decided. With --pictures the page is photographed: light, dark and narrow.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragsmith.datasets.bundled import bundled_path
from ragsmith.datasets.dataset import load_dataset, validate_dataset

with suppress(ModuleNotFoundError):  # `--help` is shown without it
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).resolve().parent.parent
STATES = {"a": "accepted", "r": "rejected", "1": "rejected", "2": "rejected", "e": "mended"}
PATIENCE = 15.0


def drafted(folder: Path, count: int) -> Path:
    """The documents of `law`, and its questions as drafts."""
    home = bundled_path("datasets", "law")
    shutil.copytree(home / "documents", folder / "documents")
    shutil.copy(home / "dataset.yaml", folder / "dataset.yaml")
    data = load_dataset("law")
    texts = {document.id: document.text for document in data.documents}
    methods = ("definitions", "headings", "tables")
    rows = []
    for number in range(count):
        example = data.examples[number % len(data.examples)]
        spans = [{"doc": s.doc, "start": s.start, "end": s.end} for s in example.evidence]
        rows.append(
            {
                "id": f"draft-{number:04}",
                "question": example.question,
                "answer": example.answer,
                "type": example.type,
                "evidence": [{**s, "text": texts[str(s["doc"])][s["start"] : s["end"]]} for s in spans],  # type: ignore[misc]
                "origin": {"by": "drafted", "method": methods[number % 3], "passage": spans[0]},
            }
        )
    (folder / "questions.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return folder


def kept(folder: Path) -> dict[str, str]:
    """The state of every draft by the files alone, as anybody would read them."""
    found: dict[str, str] = {}
    for name in ("questions.jsonl", "rejected.jsonl"):
        path = folder / name
        for line in path.read_text().splitlines() if path.exists() else ():
            row = json.loads(line)
            state = "rejected" if name == "rejected.jsonl" else row["origin"].get("reviewed", "pending")
            assert row["id"] not in found or state == "rejected", f"{row['id']} stands twice"
            found[row["id"]] = state
    return found


@dataclass
class Command:
    """A running `ragsmith dataset review`."""

    folder: Path
    reviewer: str
    process: subprocess.Popen[str] = field(init=False)
    url: str = field(init=False)

    def __post_init__(self) -> None:
        arguments = ["dataset", "review", str(self.folder), "--no-browser", "--reviewer", self.reviewer]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ragsmith", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        found = re.search(r"http\S+", line := self.process.stderr.readline())
        assert found, line
        self.url = found[0]

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        assert self.process.stderr is not None
        self.process.stderr.close()


class Page:
    """The page in a Chromium without a window, and somebody at its keyboard."""

    def __init__(
        self, url: str, size: tuple[int, int] = (1280, 800), *, dark: bool = False, phone: bool = False
    ) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
        for flag in ("headless=new", "no-sandbox", "disable-gpu", "no-first-run", "hide-scrollbars"):
            options.add_argument(f"--{flag}")
        options.add_argument(f"--window-size={size[0]},{size[1]}")
        if phone:
            metrics = {"width": size[0], "height": size[1], "pixelRatio": 2}
            options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
        service = webdriver.ChromeService(executable_path=shutil.which("chromedriver") or "")
        self.driver = webdriver.Chrome(options=options, service=service)
        if dark:
            scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.driver.get(url)
        self.until("return order.length > 0 && !busy && (current !== null || !document.getElementById('done').hidden)")

    def ask(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def until(self, script: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.ask(script):
            assert time.monotonic() < end, script
            time.sleep(0.005)

    @property
    def current(self) -> str | None:
        return str(found) if (found := self.ask("return current && current.id")) else None

    @property
    def shown(self) -> dict[str, str]:
        """What the page says of every draft."""
        return dict(self.ask("return [...drafts.values()].map(draft => [draft.id, draft.state])"))

    def press(self, *keys: str) -> None:
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def save(self) -> None:
        ActionChains(self.driver).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()

    def decide(self, key: str) -> float:
        """Decide about what is shown; returns the seconds from the last key to the next question."""
        before = self.current
        if key == "e":
            self.press("e")
            self.until("return editing !== null")
            self.press(f" ({before})")
        began = time.perf_counter()
        if key == "e":
            self.save()
        else:
            self.press(key)
        self.until(f"return !busy && (!current || current.id !== {json.dumps(before)})")
        return time.perf_counter() - began

    def kill(self) -> None:
        """Kill the browser, not its driver; then tidy up."""
        driver = self.driver.service.process.pid  # type: ignore[union-attr]
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(driver)], capture_output=True, text=True, check=False
        )
        for pid in listed.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        self.driver.service.stop()

    def quit(self) -> None:
        self.driver.quit()


@contextmanager
def opened(folder: Path, reviewer: str = "ada") -> Iterator[tuple[Command, Page]]:
    command = Command(folder, reviewer)
    page = Page(command.url)
    try:
        yield command, page
    finally:
        page.quit()
        command.end()


def compare(name: str, found: dict[str, str], expected: dict[str, str]) -> None:
    wrong = {id_: (found.get(id_), state) for id_, state in expected.items() if found.get(id_) != state}
    print(
        f"  {name}: {len(expected) - len(wrong)} of {len(expected)} as expected; wrong: {wrong or 'none'}", flush=True
    )


def by_keyboard(folder: Path, draw: random.Random) -> None:
    pressed: dict[str, str] = {}
    seconds: list[float] = []
    with opened(folder) as (_, page):
        began = time.perf_counter()
        while (id_ := page.current) is not None:
            key = draw.choices(list(STATES), [60, 12, 4, 4, 20])[0]
            seconds.append(page.decide(key))
            pressed[id_] = STATES[key]
        wall = time.perf_counter() - began
        title = page.driver.find_element(By.ID, "done-title").text
        logged = [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
    print(f"{len(pressed)} questions by keyboard in {wall:.0f} s: {dict(Counter(pressed.values()))}; page: {title!r}")
    print(
        f"  from the key to the next question, driver included: median {1000 * statistics.median(seconds):.0f} ms, "
        f"longest {1000 * max(seconds):.0f} ms; errors in the browser's log: {len(logged)}"
    )
    compare("files", kept(folder), pressed)
    mended = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    typed = sum(row["question"].endswith(f"({row['id']})") for row in mended if row["origin"]["reviewed"] == "mended")
    print(f"  mended questions have what was typed: {typed}; mistakes in the data set: {len(validate_dataset(folder))}")


def kill_process(folder: Path, draw: random.Random, kills: int) -> None:
    """Kill the command while keys are pressed."""
    lost = more = decided = 0
    for _ in range(kills):
        command = Command(folder, "ada")
        page = Page(command.url)
        timer = threading.Timer(draw.uniform(0.2, 2.0), command.process.kill)
        timer.start()
        while command.process.poll() is None:
            key = draw.choices(list(STATES), [60, 12, 4, 4, 20])[0]
            try:
                page.decide(key)
            except AssertionError:  # it does not go on: the command is gone
                break
            if page.current is None:
                break
        timer.join()
        said = page.driver.find_element(By.ID, "saved").text
        shown = {id_: state for id_, state in page.shown.items() if state != "pending"}
        page.quit()
        command.end()
        again = Command(folder, "ada")  # completes what was begun
        fresh = Page(again.url)
        there = fresh.shown
        fresh.quit()
        again.end()
        lost += sum(there[id_] != state for id_, state in shown.items())
        more += sum(state != "pending" for state in there.values()) - len(shown)
        decided = len(shown)
        files = kept(folder)
        print(f"  killed with {len(shown)} decided; page said {said!r}; files agree: {files == there}", flush=True)
    print(
        f"process killed {kills} times: {decided} decided at the end, {lost} lost, "
        f"{more} kept that the page had not been told of"
    )


def kill_browser(folder: Path, draw: random.Random, kills: int) -> None:
    """Kill the browser while keys are pressed, or while something is typed."""
    lost = typed_lost = typed = 0
    command = Command(folder, "ada")
    for number in range(kills):
        page = Page(command.url)
        shown: dict[str, str] = {}
        end = time.monotonic() + draw.uniform(0.2, 1.5)
        while time.monotonic() < end and page.current is not None:
            page.decide(draw.choice("aar"))
            shown = {id_: state for id_, state in page.shown.items() if state != "pending"}
        text, id_ = "", page.current
        if number % 2 and id_ is not None:
            text = f" half a sentence {number}"
            page.press("e", text)
            page.until("return document.getElementById('saved').textContent === 'all saved'")
            page.kill()
        elif id_ is not None:
            killer = threading.Timer(draw.uniform(0, 0.03), page.kill)
            killer.start()
            try:
                page.press("a")
            except (WebDriverException, OSError) as error:  # it was killed while it was asked
                del error
            killer.join()
        else:
            page.kill()
        again = Page(command.url)
        there = again.shown
        if text:
            typed += 1
            if again.current != id_:
                again.ask(f"show({json.dumps(id_)})")
            again.until(f"return current && current.id === {json.dumps(id_)} && editing !== null")
            typed_lost += not again.ask("return document.getElementById('new-question').value").endswith(text)
            again.press(Keys.ESCAPE)
            again.until("return editing === null && document.getElementById('saved').textContent === 'all saved'")
        again.quit()
        lost += sum(there[one] != state for one, state in shown.items())
    command.end()
    print(f"browser killed {kills} times: {lost} decisions lost; {typed} times while typing, {typed_lost} texts lost")


def photograph(folder: Path, pictures: Path) -> None:
    pictures.mkdir(parents=True, exist_ok=True)
    command = Command(folder, "ada")
    shots = {
        "light": ((1280, 800), False, False),
        "dark": ((1280, 800), True, False),
        "narrow": ((390, 844), False, True),
    }
    for name, (size, dark, phone) in shots.items():
        page = Page(command.url, size, dark=dark, phone=phone)
        page.driver.save_screenshot(str(pictures / f"{name}.png"))
        page.press("e")
        page.until("return editing !== null")
        page.driver.save_screenshot(str(pictures / f"{name}-mending.png"))
        page.press(Keys.ESCAPE)
        page.until("return editing === null")
        page.decide("a")
        page.quit()
    command.end()
    print(f"pictures: {pictures}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pictures", type=Path)
    chosen = parser.parse_args()
    draw = random.Random(5)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        by_keyboard(drafted(home / "keyboard", chosen.questions), draw)
        kill_process(drafted(home / "process", chosen.questions), draw, chosen.kills)
        kill_browser(drafted(home / "browser", chosen.questions), draw, chosen.kills)
        if chosen.pictures:
            photograph(drafted(home / "pictures", chosen.questions), chosen.pictures)


if __name__ == "__main__":
    main()
