"""An experiment on the nodes of a cluster: what all of them can search, and which node is refused."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.node_setup import NodeSetup, check_nodes, pack_setup, unpack_setup
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.models.tasks import Task
from ragsmith.models.vector_stores import resolve_address
from ragsmith.pipelines.space_file import load_space


def test_a_node_of_another_program_or_with_other_models_is_refused(tiny_setup: Experiment) -> None:
    packed = pack_setup(tiny_setup)
    assert unpack_setup(packed).model_ids == tiny_setup.model_ids
    program, models, files, experiment = pickle.loads(packed)
    with pytest.raises(UsageError, match="has another version"):
        unpack_setup(pickle.dumps(("0" * 16, models, files, b"what another version cannot read")))
    with pytest.raises(UsageError, match="other models under the same names"):
        unpack_setup(pickle.dumps((program, {**models, "embedder": "another"}, files, experiment)))


def test_a_node_that_lacks_a_user_file_is_refused(tiny_setup: Experiment, tmp_path: Path) -> None:
    program, models, _, experiment = pickle.loads(pack_setup(tiny_setup))
    missing = pickle.dumps(_Missing(str(tmp_path / "mine.py")))
    with pytest.raises(UsageError, match=r"lacks something: .*mine\.py.*; put it there, under the same path"):
        unpack_setup(pickle.dumps((program, models, missing, experiment)))


def _load(file: str) -> None:
    raise UsageError(f"no file {file}")


class _Missing:
    """A file that is loaded where it is unpickled, and is not there."""

    def __init__(self, file: str) -> None:
        self._file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _load, (self._file,)


@pytest.mark.parametrize(
    ("store", "address", "refused"),
    [
        ("approximate", "", ""),
        ("approximate", "auto", r"vector_store is approximate.*give approximate:FOLDER"),
        ("approximate:shared", "10.0.0.7:6379", ""),
        ("qdrant:folder", "", "searched by one process alone"),
        ("qdrant:http://127.0.0.1:6333", "ray://head:10001", ""),
        ("auto", "auto", ""),
    ],
)
def test_vectors_lie_where_all_nodes_can_search_them(
    tiny_setup: Experiment, store: str, address: str, refused: str
) -> None:
    if not refused and store != "auto":
        pytest.importorskip("faiss" if store.startswith("approximate") else "qdrant_client")
    for models in (ModelNames(vector_store=store), ModelNames(embedder=ModelName("wordllama", vector_store=store))):
        with pytest.raises(UsageError, match=refused) if refused else nullcontext():
            check_nodes(replace(tiny_setup, models=models), "ray", address)


class Mine:
    """A judge that is an object of this process."""

    id = "mine"

    def run(self, task: Task[object], **_: object) -> object:
        return None


class Slow:
    """An embedder whose vectors are cached, as they take long."""

    id, slow = "slow:1", True

    def embed(self, texts: Sequence[str]) -> object:
        raise AssertionError


CALLED = "is called by one process, which a cluster does not accelerate: leave the engine out"


def test_models_that_one_process_calls_are_refused_by_name(
    tiny_setup: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    objects = ModelNames(judge=ModelName("given:mine"), test_judge=ModelName("given:mine"))
    judge, slow = Mine(), replace(tiny_setup)
    vars(slow)["loaded_models"] = replace(tiny_setup.loaded_models, embedder=Slow())
    for setup, said in (
        (
            replace(tiny_setup, models=ModelNames(judge=ModelName("openai:tiny"))),
            f"the judge openai:tiny {CALLED}, and set more requests in flight",
        ),
        (
            replace(tiny_setup, models=objects, given={"judge": judge, "test_judge": judge}),
            f"the judge given:mine {CALLED}",
        ),
        (slow, f"the embedder wordllama {CALLED}"),
    ):
        with pytest.raises(WrongOption, match=f"^engine is ray:auto, and {said}$") as refused:
            check_nodes(setup, "ray:auto", "auto")
        assert refused.value.flag == "--engine"
    check_nodes(tiny_setup, "ray:auto", "auto")


def test_a_model_that_only_an_option_of_the_space_names_is_refused_too(
    tiny_setup: Experiment, tiny_space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    options = "models: {language_model: [extractive, openai:tiny]}\n"
    (tmp_path / "space.yaml").write_text(tiny_space.read_text() + options)
    setup = tiny_setup.with_searched_settings(load_space(tmp_path / "space.yaml").settings)
    with pytest.raises(WrongOption, match=f"the language model openai:tiny {CALLED}"):
        check_nodes(setup, "ray", "")


def test_code_in_cells_is_refused(tiny_setup: Experiment) -> None:
    setup = InCells(tiny_setup.dataset, tiny_setup.models, tiny_setup.chunk_size)
    with pytest.raises(WrongOption, match="a cluster cannot import techniques and measures of cells"):
        check_nodes(setup, "ray", "")


class InCells(Experiment):
    """An experiment with a technique that was defined in a cell."""

    @property
    def uses_cells(self) -> bool:
        return True


def test_a_folder_of_vectors_is_the_same_wherever_a_process_is(
    tiny_setup: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason="needs the extra large")
    models = ModelNames(vector_store="approximate:vectors")
    monkeypatch.chdir(tmp_path)
    node = NodeSetup(tiny_setup.dataset, models, tiny_setup.chunk_size, folder=Path.cwd())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert node.loaded_models.vector_store_address == f"approximate:{tmp_path / 'vectors'}"
    assert node.model_ids == replace(tiny_setup, models=models).model_ids


@given(st.text(min_size=1))
def test_only_a_relative_folder_is_changed(where: str) -> None:
    inside = resolve_address(f"approximate:{where}", Path("/shared"))
    assert resolve_address(inside, Path("/elsewhere")) == inside
    assert inside == f"approximate:{Path('/shared') / where}"
    for store in ("auto", "exact", "approximate", f"qdrant:{where}", f"postgresql://{where}"):
        assert resolve_address(store, Path("/shared")) == store
