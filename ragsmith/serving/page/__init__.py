"""The page on which one asks: put together into one file, which fetches nothing but answers."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files


@cache
def page() -> tuple[str, str]:
    """The page, and the Content-Security-Policy that allows its script and its style and nothing else."""
    here, shared = files(__package__), files("ragsmith.reporting") / "templates"
    script = (here / "page.js").read_text(encoding="utf-8").strip()
    colours = (shared / "colours.css").read_text(encoding="utf-8").strip()
    style = f"{colours}\n{(here / 'page.css').read_text(encoding='utf-8').strip()}"
    text = (here / "page.html").read_text(encoding="utf-8")
    text = text.replace("/* style */", style).replace("/* script */", script)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, policy


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
