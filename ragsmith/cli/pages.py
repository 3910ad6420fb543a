"""Serving of a page to the browser of this machine, until its user ends it."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import ExitStack

from ragsmith.cli.output import print_stderr
from ragsmith.labelling.reviewing.page.server import PageServer, redirect_file


def serve_page(server: PageServer, *, browser: bool) -> None:
    """Serve a page until it is ended, and with ``browser`` open it if there is a display.

    Without a display, a text browser would take over this terminal.
    """
    with server, ExitStack() as stack:
        print_stderr(f"review at  {server.url}")
        print_stderr("end it on the page, or with Ctrl-C; every decision is stored immediately")
        if browser and (sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()):
            webbrowser.open(stack.enter_context(redirect_file(server.url)))
        server.serve_forever(poll_interval=0.2)
