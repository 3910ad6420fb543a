"""Commands that only read: help, techniques, spaces, data sets; what they print, and what is refused."""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.cli.output import print_rows
from ragsmith.cli.techniques import explain_technique, split_docstring
from ragsmith.techniques.families import FAMILIES, passage_filter
from ragsmith.techniques.registry import Fitting, Technique, load_techniques
from ragsmith.techniques.task_lookup import find_tasks
from ragsmith.text.terminal import COLUMNS
from ragsmith.types import Fitted, Gold, Hits, Question

Command = Callable[..., Any]


@pytest.mark.parametrize(
    ("script", "heavy"),
    [
        (
            "from ragsmith.cli import run; run(['--help'])",
            ("numpy", "sqlalchemy", "deap", "optuna", "openai", "wordllama", "jinja2", "rich"),
        ),
        ("import ragsmith.api.asking", ("sqlalchemy", "openai", "jinja2", "starlette")),
    ],
    ids=["the list of commands", "asking a pipeline"],
)
def test_what_has_to_be_quick_imports_nothing_heavy(script: str, heavy: tuple[str, ...]) -> None:
    script = f"import sys; {script}; print([name for name in {heavy!r} if name in sys.modules])"
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True, env={"PYTHONPATH": root}
    )
    assert done.stdout.splitlines()[-1] == "[]"


# --- techniques ------------------------------------------------------------------------------------------------------


def test_techniques_are_listed_by_family(ragsmith: Command) -> None:
    shown = ragsmith("techniques")
    listed = [line.split()[:2] for line in shown.out.splitlines()[2:]]
    assert shown.code == 0
    assert {(family, name) for family, name in listed} == {
        (family.name, name) for family in FAMILIES for name in family.techniques
    }
    assert [family for family, _ in listed] == sorted(
        (family for family, _ in listed), key=[family.name for family in FAMILIES].index
    )


def test_the_techniques_of_one_family_are_listed(ragsmith: Command) -> None:
    shown = ragsmith("techniques", "passage_compress")
    listed = [line.split()[:2] for line in shown.out.splitlines()[2:]]
    known = next(family for family in FAMILIES if family.name == "passage_compress").techniques
    assert sorted(listed) == sorted(["passage_compress", name] for name in known)


def test_a_name_in_several_families_explains_all_or_the_one_that_is_meant(ragsmith: Command) -> None:
    assert {"reranking.hybrid", "retrieval.hybrid"} <= set(ragsmith("techniques", "hybrid").out.splitlines())
    one = ragsmith("techniques", "reranking.hybrid").out.splitlines()
    assert "reranking.hybrid" in one
    assert "retrieval.hybrid" not in one


# --- spaces ----------------------------------------------------------------------------------------------------------


def test_a_space_says_its_size(ragsmith: Command) -> None:
    shown = ragsmith("space", "paper")
    assert shown.code == 0
    assert "4 x 8 x 5 x 4 x 2 x 3 x 3 x 2 x 2 = 46,080 pipelines, 46,080 of them feasible" in shown.out
    found = json.loads(ragsmith("space", "paper", "--json").out)
    assert (found["size"], found["feasible"]) == (46_080, 46_080)
    assert list(found["options"]) == [family.name for family in FAMILIES]


def test_a_space_of_one_s_own_is_read_by_path(ragsmith: Command, tiny_space: Path) -> None:
    assert json.loads(ragsmith("space", tiny_space, "--json").out)["size"] == 48


# --- data sets -------------------------------------------------------------------------------------------------------


def test_bundled_data_sets_are_listed(ragsmith: Command) -> None:
    assert "law" in ragsmith("dataset", "list").out
    [law] = [data for data in json.loads(ragsmith("dataset", "list", "--json").out) if data["name"] == "law"]
    assert (law["documents"], law["questions"]) == (25, 200)


def test_a_data_set_is_checked(ragsmith: Command, tiny_folder: Path) -> None:
    shown = ragsmith("dataset", "validate", tiny_folder)
    assert shown.code == 0
    assert shown.out.splitlines()[-1] == f"search it  ragsmith search --dataset {tiny_folder}"
    assert json.loads(ragsmith("dataset", "validate", "law", "--json").out) == {
        **{"valid": True, "mistakes": [], "warnings": [], "split": "given"},
        "leaks": {"test": 92, "shared": 0, "near": 0, "gap": 900},
    }


def test_a_plan_with_embedded_models_says_how_much_is_answered_instead_of_its_price(
    ragsmith: Command, tmp_path: Path
) -> None:
    shown = ragsmith(
        "plan", "--dataset", "law", "--max-evaluations", 10, "--no-probes", "--cache", tmp_path / "c.sqlite"
    )
    free, takes, counted = shown.out.splitlines()
    assert counted.startswith("10 of the pipelines are proposed by the search")
    assert (shown.code, free) == (0, "all models are embedded: no requests are sent, and the search costs no money")
    assert (
        takes
        == "about 12 of 2,809,080 pipelines and 1,296 answers, fewer if candidates lose races or the search converges"
    )


def test_every_mistake_of_a_data_set_is_shown(ragsmith: Command, tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "dataset.yaml").write_text("name: broken\ncolour: red\n")
    (tmp_path / "documents" / "a.md").write_text("Some text.\n")
    (tmp_path / "questions.jsonl").write_text('{"id": "1"}\nnot json\n')
    shown = ragsmith("dataset", "validate", tmp_path)
    assert shown.code == 2
    assert len(shown.err.splitlines()) >= 3
    assert all(line.startswith("error: ") for line in shown.err.splitlines())
    machine = ragsmith("dataset", "validate", tmp_path, "--json")
    assert machine.code == 2
    assert len(json.loads(machine.out)["mistakes"]) == len(shown.err.splitlines())


def test_a_data_set_is_described(ragsmith: Command, tiny_folder: Path) -> None:
    assert ragsmith("dataset", "show", tiny_folder).code == 0
    assert isinstance(json.loads(ragsmith("dataset", "show", tiny_folder, "--json").out), dict)


# --- what is refused -------------------------------------------------------------------------------------------------

NOTHING = "no-such-thing"

WRONG: list[tuple[str, list[str], str]] = [
    ("no command", [], "Usage"),
    ("unknown command", ["serch"], "serch"),
    ("unknown flag", ["search", "--dataset", "law", "--generation", "3"], "--generation"),
    ("missing flag", ["search"], "DATASET"),
    ("not a number", ["search", "--dataset", "law", "--population", "many"], "--population"),
    ("unknown data set", ["search", "--dataset", "lawn"], "did you mean 'law'?"),
    ("unknown space", ["search", "--dataset", "law", "--space", "papers"], "did you mean 'paper'?"),
    ("unknown preset", ["search", "--dataset", "law", "--preset", "papier"], "did you mean 'paper'?"),
    ("unknown strategy", ["search", "--dataset", "law", "--strategy", "genetics"], "did you mean 'genetic'?"),
    ("unknown crossover", ["search", "--dataset", "law", "--crossover", "uniformly"], "uniformly"),
    ("unknown mutation", ["search", "--dataset", "law", "--mutation", "x"], "mutation"),
    ("unknown selection", ["search", "--dataset", "law", "--selection", "x"], "selection"),
    ("population of one", ["search", "--dataset", "law", "--population", "1"], "population is 1"),
    ("no generations", ["search", "--dataset", "law", "--generations", "0"], "generations is 0"),
    ("negative seed", ["search", "--dataset", "law", "--seed", "-1"], "seed is -1"),
    ("no evaluations", ["search", "--dataset", "law", "--max-evaluations", "0"], "--max-evaluations is 0"),
    ("no time", ["search", "--dataset", "law", "--time-limit", "0"], "--time-limit is 0"),
    ("time that is no number", ["search", "--dataset", "law", "--time-limit", "nan"], "--time-limit is nan"),
    ("no workers", ["search", "--dataset", "law", "--workers", "0"], "--workers is 0"),
    ("nothing that is tuned", ["search", "--dataset", "law", "--objective", "calls"], "--objectives quality,calls"),
    ("nothing that is weighed", ["search", "--dataset", "law", "--objectives", "retrieval"], "--objective retrieval"),
    ("a margin beyond any fitness", ["plan", "--dataset", "law", "--margin", "5"], "--margin is 5.0"),
    ("tiny chunks", ["search", "--dataset", "law", "--chunk-size", "9"], "the chunk size is 9"),
    ("unknown model", ["search", "--dataset", "law", "--llm", "gpt"], "unknown language model 'gpt'"),
    ("unknown judge", ["search", "--dataset", "law", "--judge", "gpt"], "unknown judge 'gpt'"),
    ("no key", ["search", "--dataset", "law", "--llm", "openai:gpt"], "OPENAI_API_KEY is not set"),
    ("unknown technique", ["techniques", "hyd"], "did you mean 'hyde'?"),
    ("unknown technique of a family", ["techniques", "reranking.hyde"], "unknown technique 'reranking.hyde'"),
    ("unknown space to show", ["space", "quik"], "did you mean 'quick'?"),
    ("unknown data set to check", ["dataset", "validate", NOTHING], NOTHING),
    ("unknown data set to show", ["dataset", "show", NOTHING], NOTHING),
    ("unknown format", ["dataset", "import", ".", "-o", "out", "--format", "x"], "unknown format 'x'"),
    ("no pipeline to ask", ["ask", f"{NOTHING}.yaml", "Why?"], NOTHING),
    ("no pipeline to evaluate", ["evaluate", f"{NOTHING}.yaml"], NOTHING),
    ("no pipeline to verify", ["verify", f"{NOTHING}.yaml"], NOTHING),
    ("no cache to report", ["report", "--cache", f"{NOTHING}.sqlite"], "run a search first"),
    ("no cache to export from", ["export", "--dataset", "law", "--cache", f"{NOTHING}.sqlite"], "run a search first"),
    ("no cache to list", ["runs", "--cache", f"{NOTHING}.sqlite"], "run a search first"),
    ("no cache to look at", ["cache", "--cache", f"{NOTHING}.sqlite"], "run a search first"),
]


@pytest.mark.parametrize(("arguments", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_request_is_refused_in_a_sentence_and_leaves_nothing(
    ragsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    shown = ragsmith(*arguments)
    assert shown.code == 2
    assert said in shown.out + shown.err
    assert "Traceback" not in shown.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "line"), [("families: [\n", 2), ("a: 1\na: 2\n", 2), ("families:\n  retrieval: [bm52]\n", 1), ("", 1)]
)
def test_a_malformed_space_is_refused_with_its_line(ragsmith: Command, tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    for arguments in (("space", path), ("search", "--dataset", "law", "--space", path)):
        shown = ragsmith(*arguments)
        assert shown.code == 2
        assert shown.err.startswith(f"error: {path}:{line}: ")
        assert len(shown.err.splitlines()) == 1


def test_a_file_that_is_no_cache_is_unchanged(ragsmith: Command, tmp_path: Path) -> None:
    path = tmp_path / "letters.sqlite"
    path.write_text("Dear Sir or Madam,\n" * 100)
    before = path.read_bytes()
    for arguments in (("runs", "--cache", path), ("search", "--dataset", "law", "--cache", path)):
        shown = ragsmith(*arguments)
        assert shown.code in (1, 2)
        assert "is not a ragsmith cache" in shown.err
        assert "Traceback" not in shown.err
    assert path.read_bytes() == before


load_techniques()
EVERY = [technique for family in FAMILIES for technique in family.techniques.values()]


def test_a_docstring_is_sorted_by_how_its_sentences_begin() -> None:
    doc = split_docstring(
        """Do something with
        ``n`` things.

        It is simple. Helps when things differ. Costs 1 call a thing, as Gao et al. do. It stops early.
        Against the paper: the sign is right. The bound is ours.

        Against the original system: nothing is lost. Helps nobody else.
        """
    )
    assert doc.summary == "Do something with ``n`` things."
    assert doc.helps == "Helps when things differ.\n\nHelps nobody else."
    assert doc.costs == "Costs 1 call a thing, as Gao et al. do."
    assert doc.against == (
        "Against the paper: the sign is right. The bound is ours.\n\nAgainst the original system: nothing is lost."
    )
    assert doc.details == "It is simple. It stops early."


def test_what_is_laid_out_by_hand_is_left_alone() -> None:
    doc = split_docstring("Do it.\n\nBy this rule:\n    s = a + b\nCosts nothing.\n\nCosts nothing at all.")
    assert doc.details == "By this rule:\n    s = a + b\nCosts nothing."
    assert doc.costs == "Costs nothing at all."


@pytest.mark.parametrize("technique", EVERY, ids=lambda t: f"{t.family}.{t.name}")
def test_nothing_of_a_docstring_is_lost(technique: Technique) -> None:
    shown = " ".join(explain_technique(technique)).split()
    written = (inspect.getdoc(technique.fn) or "").replace("``", "`").split()
    assert not Counter(written) - Counter(shown)
    assert all(f"{name} = {default!r}" in " ".join(shown) for name, default in technique.defaults.items())
    assert all(len(line) <= 120 for line in explain_technique(technique))


@pytest.mark.parametrize("technique", EVERY, ids=lambda t: f"{t.family}.{t.name}")
def test_every_technique_with_a_language_model_has_a_task(technique: Technique) -> None:
    assert bool(find_tasks(technique)) == ("language_model" in technique.tools.values())


def test_tasks_are_followed_through_the_functions_that_ask(ragsmith: Command) -> None:
    [hyde] = json.loads(ragsmith("techniques", "hyde", "--json").out)
    assert [task["name"] for task in hyde["tasks"]] == ["imagine_passage"]
    assert "{>question}" in hyde["tasks"][0]["prompt"] or "{question}" in hyde["tasks"][0]["prompt"]
    [both] = json.loads(ragsmith("techniques", "reranking.hybrid", "--json").out)
    [llm] = json.loads(ragsmith("techniques", "reranking.llm", "--json").out)
    assert both["tasks"] == llm["tasks"] != []  # it calls the other technique


def test_prompts_are_shown_on_request(ragsmith: Command) -> None:
    [prompt] = [task["prompt"] for t in json.loads(ragsmith("techniques", "hyde", "--json").out) for task in t["tasks"]]
    first = f"    | {prompt.splitlines()[0]}"
    assert first not in ragsmith("techniques", "hyde").out.splitlines()
    assert first in ragsmith("techniques", "hyde", "--prompts").out.splitlines()


def test_the_parts_stand_under_headings_of_their_own(ragsmith: Command) -> None:
    lines = ragsmith("techniques", "reflection_revising").out.splitlines()
    headings = ["Method", "When it helps", "What it costs", "Differences from the original", "Parameters", "Needs"]
    assert [line.strip() for line in lines if line.startswith("  ") and line.strip() in headings] == headings
    assert lines[lines.index("  What it costs") + 1].startswith("    Costs 1 call when the draft passes")
    assert lines[lines.index("  Needs") + 1] == "    language_model"
    assert "  (a search may vary it: " in ragsmith("techniques", "hybrid").out


def test_what_is_fitted_or_for_analysis_says_so(registered: Callable[..., Technique]) -> None:
    def by_gold(question: Question, hits: Hits, *, gold: Gold, fitted: Fitted) -> Hits:
        """Keep what is relevant."""
        return hits

    passage_filter(
        paper="",
        fitting=Fitting(lambda question, hits: 0, lambda observations: {}),
        after={"retrieval": ("bm25", "vector")},
    )(by_gold)
    try:
        shown = "\n".join(explain_technique(passage_filter["by_gold"]))
    finally:
        del passage_filter.techniques["by_gold"]
    assert "retrieval bm25 or vector before it" in shown
    assert "on which it is fitted" in shown
    assert "for analysis only" in shown
    assert "    gold\n" not in shown


def test_programs_get_everything(ragsmith: Command) -> None:
    [found] = json.loads(ragsmith("techniques", "retrieval.hybrid", "--json").out)
    assert {"family", "name", "summary", "method", "paper", "helps", "costs", "against", "details", "doc"} <= set(found)
    assert (found["needs"], found["fitted"], found["analysis_only"], found["after"]) == (["embedder"], False, False, {})
    assert found["costs"] == "Costs one embedding per query."
    assert found["choices"]["fusion"] == ["convex", "rrf", "borda", "dbsf"]


def printed(rows: list[list[str]], head: list[str], right: frozenset[int] = frozenset(), *, fold: bool) -> list[str]:
    with redirect_stdout(io.StringIO()) as out:
        print_rows(rows, head, right, fold=fold)
    return out.getvalue().splitlines()


CELLS = st.text("ab", min_size=1, max_size=COLUMNS - 4)
TABLES = st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=2, max_size=4))


@given(TABLES, st.frozensets(st.integers(0, 5)))
def test_a_folded_table_fits_and_has_every_cell_in_its_order(rows: list[list[str]], right: frozenset[int]) -> None:
    lines = printed(rows[1:], rows[0], right, fold=True)
    assert all(len(line) <= COLUMNS for line in lines)
    assert [cell for line in lines if set(line) - {"-", " "} for cell in line.split()] == list(chain(*rows))


def test_columns_that_have_no_room_go_on_further_in_and_stay_below_each_other() -> None:
    head = ["option", "gain", "calls"]
    rows = [["crag", "+0.1", "10.5"], ["r" * 76, "+0.25", "1.0"]]
    assert printed(rows, head, frozenset({1, 2}), fold=True) == [
        "option",
        "     gain  calls",
        "-" * COLUMNS,
        "crag",
        "     +0.1   10.5",
        "r" * 76,
        "    +0.25    1.0",
    ]


@pytest.mark.parametrize("fold", [False, True])
def test_a_table_that_fits_stays_as_it_is(fold: bool) -> None:
    assert printed([["crag", "1"]], ["option", "n"], fold=fold) == ["option  n", "------  -", "crag    1"]


def test_a_wide_table_is_folded_only_where_that_is_asked_for() -> None:
    wide = [["a" * 50, "b" * 50]]
    assert printed(wide, ["first", "second"], fold=False)[-1] == f"{'a' * 50}  {'b' * 50}"
    assert printed(wide, ["first", "second"], fold=True)[-2:] == ["a" * 50, f"    {'b' * 50}"]
