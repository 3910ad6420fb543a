"""``ragsmith dataset review``."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    terminal: Annotated[bool, typer.Option("--terminal", help="Review here instead of in a browser.")] = False,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write a .md or .csv file to decide in.")
    ] = None,
    read: Annotated[
        Path | None, typer.Option("--read", metavar="FILE", help="Apply the decisions of such a file.")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port of the page, on this machine alone; 0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Look at drafted questions, least certain first: accept, mend or reject each."""
    from ragsmith.api.reviewing import review as opened
    from ragsmith.errors import UsageError
    from ragsmith.labelling.reviewing.review import login_name

    if sum([terminal, write is not None, read is not None]) > 1:
        raise UsageError("--terminal, --write and --read are three ways to review: give one of them")
    if not 0 <= port < 1 << 16:
        raise UsageError(f"--port is {port}: give one from 0 to 65535")
    found = opened(folder)
    name = login_name() if reviewer is None else reviewer
    more: dict[str, Any] = {}
    if write is not None:
        from ragsmith.labelling.reviewing.sheet import write_sheet

        more = {"written": write_sheet(found, write), "file": str(write)}
    elif read is not None:
        more = _apply(found, read, name)
    elif terminal:
        from ragsmith.labelling.reviewing.terminal import TerminalReview

        TerminalReview(found, name, say=note if as_json else say).run()
    else:
        _serve(found, name, port, browser=browser, as_json=as_json)
    _say_end(found, more, as_json=as_json)


def _apply(found: Review, file: Path, reviewer: str) -> dict[str, Any]:
    from ragsmith.labelling.reviewing.sheet import apply_sheet

    applied = apply_sheet(found, file, reviewer)
    for sentence in applied.meanwhile:
        note(f"warning: {sentence}")
    return {"applied": applied.counts, "undecided": applied.undecided, "meanwhile": list(applied.meanwhile)}


def _serve(found: Review, reviewer: str, port: int, *, browser: bool, as_json: bool) -> None:
    from ragsmith.labelling.reviewing.page.doorway import doorway
    from ragsmith.labelling.reviewing.page.server import ReviewServer

    with ReviewServer(found, reviewer, port) as server, ExitStack() as stack:
        note(f"review at  {server.url}")
        note("end it on the page, or with Ctrl-C; every decision is kept at once")
        if browser and _has_screen():
            import webbrowser

            webbrowser.open(stack.enter_context(doorway(server.url)))
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            _say_end(found, {}, as_json=as_json)
            raise


def _has_screen() -> bool:
    """Whether a browser could show something; without one a browser for terminals would take this one."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _say_end(found: Review, more: dict[str, Any], *, as_json: bool) -> None:
    counts, folder = found.counts(), shlex.quote(str(found.folder))
    if as_json:
        say_json({"folder": str(found.folder), **counts, **more})
        return
    if "written" in more:
        say(f"{more['file']}: {more['written']} questions to decide about")
        say(f"then  ragsmith dataset review {folder} --read {shlex.quote(more['file'])}")
        return
    if "applied" in more:
        applied = more["applied"]
        said = ", ".join(f"{number} {state}" for state, number in applied.items())
        say(f"applied: {said}; {more['undecided']} left open, {len(more['meanwhile'])} decided by others meanwhile")
    gone = sum(counts.values()) - counts["pending"]
    said = ", ".join(f"{counts[state]} {state}" for state in ("accepted", "mended", "rejected"))
    say(f"{found.folder}: {gone} of {sum(counts.values())} reviewed: {said}; {counts['pending']} to go")
    if not counts["pending"]:
        say(f"check it  ragsmith dataset check {folder}")
