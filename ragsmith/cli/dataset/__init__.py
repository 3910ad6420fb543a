"""``ragsmith dataset``: one file per step from documents to a data set that can be searched."""

from ragsmith.cli.dataset import show, importing, draft  # noqa: F401  # isort: skip  in the order of --help
