"""Commands whose help lists what is registered: what installed packages and imported files define, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from ragsmith.extensions import Extension
    from ragsmith.strategies.registry import RegisteredStrategy


def registered_strategies() -> Iterable[RegisteredStrategy]:
    """The strategies of a search; importing them waits until the help is shown."""
    from ragsmith.strategies import STRATEGIES

    return STRATEGIES


def listing(title: str, registered: Callable[[], Iterable[Extension]]) -> type[TyperCommand]:
    """A class of commands whose help ends with a list of ``registered`` under ``title``."""

    class ListingCommand(TyperCommand):
        """A command with such a help."""

        def format_epilog(self, ctx: Any, formatter: Any) -> None:
            with formatter.section(title):
                formatter.write_dl([(extension.name, extension.describe()) for extension in registered()])

    return ListingCommand
