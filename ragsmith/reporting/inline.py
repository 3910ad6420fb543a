"""Self-contained HTML pages with inline script and style."""

import base64
import hashlib
from pathlib import Path


def inline_page(folder: Path, style: str = "") -> tuple[str, str]:
    """Return ``page.html`` of a folder with ``page.js`` and ``page.css`` inlined, and its Content-Security-Policy.

    The policy allows this script and this style only. ``style`` is inserted before that of the folder.
    """
    text, script, own = ((folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "js", "css"))
    script, style = script.strip(), f"{style}{own.strip()}"
    policy = (
        f"default-src 'none'; script-src '{policy_source(script)}'; style-src '{policy_source(style)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.replace("/* style */", style).replace("/* script */", script), policy


def policy_source(source: str) -> str:
    """Return the source expression of an inline script or style for a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
