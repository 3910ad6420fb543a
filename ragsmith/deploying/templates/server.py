"""Serve winner.yaml over HTTP, like ``ragsmith serve``, with settings from environment variables.

The server prints its URL when it has started. On SIGTERM or Ctrl-C it answers accepted requests, and stops.
"""

import os
import sys
from pathlib import Path

import ragsmith
from ragsmith.errors import RagsmithError, UsageError

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"


def setting(name: str, default: str = "") -> str:
    """Return the variable RAGSMITH_``name``, or ``default`` if it is unset or empty."""
    return os.environ.get(f"RAGSMITH_{name}") or default


def main() -> int:
    """Serve until a signal is received, and return the exit code."""
    if not os.environ.get("RAGSMITH_TOKEN"):
        os.environ.pop("RAGSMITH_TOKEN", None)
    try:
        limits = ragsmith.ServingLimits(
            concurrency=int(setting("CONCURRENCY")) if setting("CONCURRENCY") else None,
            queue=int(setting("QUEUE", "64")),
            seconds=float(setting("SECONDS", "120")),
        )
        ragsmith.serve(
            HERE / "winner.yaml",
            documents=None if (DATA / "questions.jsonl").is_file() else DATA,  # an image has no questions
            host=setting("HOST", "127.0.0.1"),
            port=int(setting("PORT", "8000")),
            cache=setting("CACHE", str(HERE / "cache.sqlite")),
            models=setting("MODELS") or None,
            base_url=setting("BASE_URL") or None,
            vector_store=setting("VECTOR_STORE") or None,
            feedback=setting("FEEDBACK") or None,
            limits=limits,
            on_start=lambda url: print(url, flush=True),
        )
    except (RagsmithError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError | ValueError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
