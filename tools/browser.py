"""Chromium without a window, by its DevTools protocol: pages are photographed, and measured by `benchmarks`."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver

COLOURS = 255
"""Of a picture: a page has few, and a picture of it is then a third of the size."""

LONGEST = 8000
"""Pixels of a picture, from the top."""


class Browser:
    """One Chromium. Every request, message of the console and error of a page is kept."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def command(self, name: str, **given: Any) -> Any:
        """A command of the protocol."""
        return self.driver.execute_cdp_cmd(name, given)

    def show(self, page: Path, width: int, height: int = 900, *, dark: bool = False, media: str = "") -> None:
        """Load a page at a width, as it is on a dark screen, or as ``media`` ``print`` has it."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setEmulatedMedia", media=media, features=scheme)
        mobile = width < 600
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(page.resolve().as_uri())

    def ask(self, script: str) -> Any:
        """What a function body returns."""
        return self.driver.execute_script(script)

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was shown, besides its own and those inside it."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if url != self.driver.current_url and not url.startswith("data:")]

    def messages(self) -> list[str]:
        """What the console said since the page was shown."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def photograph(self, picture: Path, longest: int = LONGEST) -> None:
        """The whole page as PNG, at most so many pixels high."""
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(longest, size["height"]), "scale": 1}
        taken = self.command("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        image = Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")
        found = image.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        found.save(picture, optimize=True)


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium that ends with the block.

    Raises:
        FileNotFoundError: there is no Chromium, or no driver for it.
    """
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if found is None or driver is None:
        raise FileNotFoundError("no chromium with its chromedriver on the path")
    options = webdriver.ChromeOptions()
    options.binary_location = found
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "no-first-run", "hide-scrollbars"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    try:
        yield Browser(opened)
    finally:
        opened.quit()
