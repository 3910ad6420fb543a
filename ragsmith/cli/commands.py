"""Every command: importing this file completes ``app``."""

from ragsmith.cli import (  # noqa: F401  # isort: skip  each adds its commands to `app`, in the order of --help
    audit,
    techniques,
    dataset,
    models,
    recommend,
    effects,
    plan,
    results,
    search,
    ask,
    index,
    serve,
    deploy,
    explain,
    ablate,
    compare,
    transfer,
)
from ragsmith.cli.app import app

__all__ = ["app"]
