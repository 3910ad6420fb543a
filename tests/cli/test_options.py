"""Groups of flags, each declared once and merged into the commands that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ragsmith.cli.options import merged


@dataclass(frozen=True)
class Colours:
    paper: Annotated[str, typer.Option("--paper", help="What to write on.")] = "white"
    ink: Annotated[str | None, typer.Option("--ink", help="What to write with.")] = None


@pytest.fixture
def written() -> list[object]:
    return []


@pytest.fixture
def app(written: list[object]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @merged
    def write(*, text: Annotated[str, typer.Argument()], colours: Colours, loud: bool = False) -> None:
        written.append((text, colours, loud))

    return app


def test_a_command_is_handed_the_group_as_one_object(app: typer.Typer, written: list[object]) -> None:
    assert CliRunner().invoke(app, ["hello", "--ink", "red", "--loud"]).exit_code == 0
    assert CliRunner().invoke(app, ["hello"]).exit_code == 0
    assert written == [("hello", Colours("white", "red"), True), ("hello", Colours(), False)]


def test_help_lists_the_flags_where_the_group_stands(app: typer.Typer) -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    assert shown.index("--paper") < shown.index("--ink") < shown.index("--loud")
    assert "What to write with." in shown


def test_a_flag_that_is_declared_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="duplicate parameter name"):

        @merged
        def write(*, colours: Colours, ink: str = "") -> None: ...
