"""``ragsmith dataset review``."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsmith.cli.dataset.app import commands
from ragsmith.cli.options import JsonOption
from ragsmith.cli.output import note, say, say_json

if TYPE_CHECKING:
    from ragsmith.labelling.reviewing.review import Review


@commands.command()
def review(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a data set with drafted questions.")],
    reviewer: Annotated[
        str | None, typer.Option("--reviewer", help="Who decides. [default: the name you are logged in by]")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port of the page, on this machine alone; 0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Look at drafted questions, least certain first: accept, mend or reject each."""
    from ragsmith.api.reviewing import review as opened
    from ragsmith.errors import UsageError
    from ragsmith.labelling.reviewing.review import login_name

    if not 0 <= port < 1 << 16:
        raise UsageError(f"--port is {port}: give one from 0 to 65535")
    with opened(folder) as found:
        try:
            _serve(found, login_name() if reviewer is None else reviewer, port, browser=browser)
        finally:
            _say_end(found, as_json=as_json)


def _serve(found: Review, reviewer: str, port: int, *, browser: bool) -> None:
    from ragsmith.labelling.reviewing.page.access_token import doorway
    from ragsmith.labelling.reviewing.page.server import ReviewServer

    with ReviewServer(found, reviewer, port) as server, ExitStack() as stack:
        note(f"review at  {server.url}")
        note("end it on the page, or with Ctrl-C; every decision is kept at once")
        if browser and _has_screen():
            import webbrowser

            webbrowser.open(stack.enter_context(doorway(server.url)))
        server.serve_forever(poll_interval=0.2)


def _has_screen() -> bool:
    """Whether a browser could show something; without one a browser for terminals would take this one."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _say_end(found: Review, *, as_json: bool) -> None:
    counts, folder = found.counts(), shlex.quote(str(found.folder))
    if as_json:
        say_json({"folder": str(found.folder), **counts})
        return
    gone = sum(counts.values()) - counts["pending"]
    said = ", ".join(f"{counts[state]} {state}" for state in ("accepted", "mended", "rejected"))
    say(f"{found.folder}: {gone} of {sum(counts.values())} reviewed: {said}; {counts['pending']} to go")
    if not counts["pending"]:
        say(f"check it  ragsmith dataset check {folder}")
