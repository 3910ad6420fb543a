"""Ask on the page of `ragsmith serve` by keyboard in headless Chromium, at two widths, light and dark.

python benchmarks/bench_serve_page.py [--winner FILE] [--pictures FOLDER]

Needs Chromium with its driver, and `pip install selenium pillow`. Prints what was found, and ends with exit code 1
where something is not as it should be: a request to elsewhere, a message of the console, a line wider than the page, a
key that does nothing, feedback that is not on the disk. With --pictures the page is photographed.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools")]

from browser import Browser, browser  # noqa: E402

QUESTION = "How long may a buyer wait before telling the seller of a defect?"
PATIENCE = 20.0


def until(shown: Browser, said: str) -> Any:
    """What a function body returns, once that is true."""
    end = time.monotonic() + PATIENCE
    while not (found := shown.ask(said)):
        if time.monotonic() > end:
            raise TimeoutError(said)
        time.sleep(0.02)
    return found


def press(shown: Browser, *keys: str) -> None:
    """Press keys, one after the other, wherever the page has put the focus."""
    ActionChains(shown.driver).send_keys(*keys).perform()


def look(shown: Browser, url: str, feedback: Path, width: int, *, dark: bool, picture: Path | None) -> list[str]:
    """What is wrong with the page at a width."""
    wrong: list[str] = []
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    shown.command("Emulation.setEmulatedMedia", media="", features=scheme)
    shown.command(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
    )
    shown.driver.get_log("performance")
    shown.driver.get_log("browser")
    shown.driver.get(url)
    press(shown, QUESTION, Keys.ENTER)  # the question has the focus
    until(shown, "return document.querySelectorAll('#stages > li').length === 9")
    if not shown.ask("return document.querySelectorAll('.passage.cited mark').length"):
        wrong.append("nothing is marked in what is cited")
    if shown.ask("return document.activeElement.id") != "answer":
        wrong.append("the answer has not the focus")
    wide = shown.ask("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        wrong.append(f"the page is {wide} pixels wider than its window")
    if picture:
        shown.photograph(picture, longest=1500)
    before = len(feedback.read_text().splitlines()) if feedback.exists() else 0
    shown.ask("document.querySelector('[data-thumb=down]').focus()")
    press(shown, Keys.ENTER)
    until(shown, "return document.activeElement.id === 'corrected'")
    press(shown, "Eight days.", Keys.TAB, Keys.ENTER)
    until(shown, "return document.getElementById('kept').textContent.startsWith('Kept')")
    rows = [json.loads(line) for line in feedback.read_text().splitlines()]
    if len(rows) != before + 1 or (rows[-1]["question"], rows[-1]["answer"]) != (QUESTION, "Eight days."):
        wrong.append("the feedback is not on the disk")
    shown.ask("document.activeElement.blur()")
    press(shown, "/")
    if shown.ask("return document.activeElement.id") != "question":
        wrong.append("/ does not lead to the question")
    press(shown, "x" * 5000, Keys.ENTER)
    until(shown, "return document.getElementById('problem').textContent.includes('at most 4,000')")
    wrong += [f"asked for {one}" for one in shown.requests() if not one.startswith(url)]
    wrong += [one for one in shown.messages() if "400 (Bad Request)" not in one]
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--winner", type=Path, default=ROOT / "reports/examples/law/winner.yaml")
    parser.add_argument("--pictures", type=Path)
    given = parser.parse_args()
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        feedback = Path(folder) / "feedback.jsonl"
        command = [
            sys.executable,
            "-m",
            "ragsmith",
            "serve",
            given.winner,
            "--port",
            "0",
            "--feedback",
            feedback,
            "--json",
        ]
        with (Path(folder) / "log").open("w") as log:
            server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            url = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")["url"]
            with browser() as shown:
                for width in (390, 1280):
                    for dark in (False, True):
                        name = f"serve{'-phone' if width < 600 else ''}{'-dark' if dark else ''}.png"
                        picture = given.pictures / name if given.pictures else None
                        wrong = look(shown, url, feedback, width, dark=dark, picture=picture)
                        failed |= bool(wrong)
                        print(f"{width} px, {'dark' if dark else 'light'}: {'; '.join(wrong) or 'as it should be'}")
        finally:
            server.send_signal(signal.SIGTERM)
            print(f"the server ended with exit code {server.wait(PATIENCE)}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
