"""Providers of models declare themselves: one file makes a name known in every place where models have names."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from rows import rows

from ragsmith.models.names import ModelName, ModelNames
from ragsmith.models.options import NO_EFFECT_ON_RESULTS, Option, option_from_hint
from ragsmith.models.registry import REGISTRY, ROLES, provider, providers
from ragsmith.plugins import Range

FILE = '''
"""Letters: a text is how often it has each letter, of the first `letters` of the alphabet."""

from typing import Annotated

import numpy as np

from ragsmith.models.options import BatchSize
from ragsmith.models.registry import model_id, provider
from ragsmith.plugins import Range


@provider("embedder", "letters")
class Letters:
    slow = True

    def __init__(self, model: str, *, letters: Annotated[int, Range(5, 26)] = 26, batch_size: BatchSize = 8) -> None:
        self.id = model_id("letters", model, letters=letters)
        self._letters = [chr(ord("a") + i) for i in range(letters)]

    def embed(self, texts):
        rows = np.array([[1 + text.lower().count(letter) for letter in self._letters] for text in texts], float)
        rows = rows.reshape(len(texts), len(self._letters))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
'''


@pytest.fixture(autouse=True)
def no_traces() -> Iterator[None]:
    """What a test registers is taken out again."""
    providers("embedder")  # those of the package are there before
    before = set(REGISTRY)
    yield
    for known in set(REGISTRY) - before:
        del REGISTRY[known]


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider from a user's own file."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "letters.py"
    file.write_text(FILE)
    runpy.run_path(str(file))


@pytest.mark.processes
@pytest.mark.usefixtures("letters")
def test_a_new_provider_is_searched_with_recorded_and_verified(
    ragsmith: Callable[..., Any], search_arguments: Callable[..., list[object]]
) -> None:
    Path("models.yaml").write_text("embedder: {model: 'letters:latin', letters: 12, batch_size: 2}\n")
    said = ragsmith(*search_arguments("--models", "models.yaml", "--json", "--workers", 2))
    assert said.code == 0, said.err
    winner = Path(json.loads(said.out)["winner"])
    written = yaml.safe_load(winner.read_text())["models"]
    assert written["embedder"] == {"model": "letters:latin", "letters": 12}  # how it is asked stays with the user
    assert written["ids"]["embedder"] == "letters:latin@letters=12"
    assert ragsmith("verify", winner).code == 0
    assert ragsmith("models", "check", "--embedder", "letters:latin").code == 0
    assert "letters:MODEL" in ragsmith("models", "list").out
    listed = {(row["role"], row["name"]): row for row in json.loads(ragsmith("models", "list", "--json").out)}
    assert listed["embedder", "letters:MODEL"]["options"]["letters"] == {"shapes_results": True}
    assert listed["embedder", "letters:MODEL"]["options"]["batch_size"] == {"shapes_results": False}


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(("text", "said"), rows("wrong options of a user's provider"))
def test_mistakes_with_it_are_named_as_with_any_other(text: str, said: str, ragsmith: Callable[..., Any]) -> None:
    Path("models.yaml").write_text(f"embedder: {text}\n")
    done = ragsmith("models", "check", "--models", "models.yaml")
    assert done.code == 2
    assert said in done.err


@pytest.mark.usefixtures("letters")
def test_a_local_model_that_is_slow_is_shared_by_threads() -> None:
    names = ModelNames(embedder=ModelName("letters:latin", letters=12))
    assert (names.embedded, names.heavy, names.prefers_threads) == (True, True, True)
    assert ModelNames.from_dict(names.to_dict()) == names


def test_a_name_is_registered_once_and_for_a_role_that_there_is() -> None:
    provider("embedder", "mine")(lambda model: None)
    with pytest.raises(ValueError, match="the embedder 'mine' is registered twice"):
        provider("embedder", "mine")(lambda model: None)
    with pytest.raises(ValueError, match="no provider can be registered for 'judge'"):
        provider("judge", "mine")


@pytest.mark.parametrize(
    ("hint", "option"),
    [
        (int, Option(int)),
        (str | None, Option()),
        (Annotated[float, Range(0, 2)] | None, Option(float, Range(0, 2))),
        (Annotated[bool, NO_EFFECT_ON_RESULTS], Option(bool, affects_results=False)),
        (Literal["a", "b"], Option(choices=("a", "b"))),
    ],
)
def test_an_option_is_read_from_the_type_of_an_argument(hint: Any, option: Option) -> None:
    assert option_from_hint(hint) == option


def test_an_option_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="an option cannot be of type <class 'list'>: use int, float, str, bool"):
        option_from_hint(list)


EVERY = [pytest.param(declared, id=f"{role} {name}") for role in ROLES for name, declared in providers(role).items()]


@pytest.mark.parametrize("declared", EVERY)
def test_every_provider_states_options_that_can_be_read(declared: Any) -> None:
    assert declared.options.keys() >= declared.own_options.keys()
    assert declared.served == ("base_url" in declared.options)
    assert (declared.role == "embedder") == ("vector_store" in declared.options)
