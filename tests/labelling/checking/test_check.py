"""The command and the function: exit codes, what is printed, what is written, and sets that lack something."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import ragsmith as library
from ragsmith.datasets.dataset import load_dataset, make_dataset, write_dataset
from ragsmith.errors import UsageError
from ragsmith.labelling.checking.finding import GateState
from ragsmith.labelling.checking.view import DatasetView, EvidenceMatching
from ragsmith.types import Dataset, Document, Example, Origin, Span

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def law() -> Dataset:
    return load_dataset("law")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def remade(data: Dataset, **changes: object) -> Dataset:
    examples = [replace(example, **changes) for example in data.examples]  # type: ignore[arg-type]
    return make_dataset({"name": "remade"}, data.documents, examples)


# --- the command -----------------------------------------------------------------------------------------------------


def test_what_passes_ends_with_0_and_writes_its_page(ragsmith: Command) -> None:
    ended = ragsmith("dataset", "check", "law", "--only", "spans", "--only", "leakage")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "law: 25 documents, 554 chunks, 200 questions; pipelines were ranked on 184"
    assert lines[1].split()[:2] == ["passed", "spans"]
    assert lines[2].split()[:2] == ["passed", "leakage"]
    assert lines[3:] == ["No gate failed: 2 passed.", "reports/law/check.html"]
    assert Path("reports/law/check.html").is_file()


def test_an_unanswerable_question_that_a_document_answers_is_named_with_its_sentence(
    ragsmith: Command, law: Dataset
) -> None:
    answer = "The well inspector of Harrowmark is Ada Vane."
    added = Document("notice", "Notice", f"Of the year 2025. {answer}")
    write_dataset(make_dataset({"name": "mine"}, [*law.documents, added], law.examples), "mine")
    ended = ragsmith("dataset", "check", "mine", "--only", "unanswerable")
    assert ended.code == 0
    assert "1 of 16 unanswerable questions have all their words in a passage" in ended.out
    assert (
        f'unanswerable warns: law-188 is labelled as unanswerable, but notice may answer it, "{answer}": ' in ended.out
    )


def test_what_fails_ends_with_1_and_says_what_to_do(ragsmith: Command, law: Dataset) -> None:
    written = [replace(e, split="test" if i % 2 else "search") for i, e in enumerate(law.examples)]
    write_dataset(make_dataset({"name": "mine"}, law.documents, written), "mine")
    ended = ragsmith("dataset", "check", "mine", "--only", "leakage", "--html", "page.html")
    assert ended.code == 1
    assert "1 gate failed, leakage: 1 failed." in ended.out
    assert "leakage failed: take `split` out of questions.jsonl" in ended.out
    assert Path("page.html").is_file()
    assert not Path("reports").exists()


def test_warnings_fail_if_asked_to(ragsmith: Command) -> None:
    asked = ("dataset", "check", "law", "--only", "questions", "--json")
    assert ragsmith(*asked).code == 0
    ended = ragsmith(*asked, "--strict")
    assert ended.code == 1
    assert json.loads(ended.out)["passed"] is False


def test_programs_get_figures_limits_and_offenders(ragsmith: Command) -> None:
    ended = ragsmith("dataset", "check", "law", "--only", "bm25", "--set", "bm25.high=0.6", "--json")
    said = json.loads(ended.out)
    assert (said["dataset"], said["questions"], said["drafted"], said["passed"]) == ("law", 200, 0, True)
    (found,) = said["findings"]
    assert found["state"] == "warning"
    assert found["figure"] == pytest.approx(0.612, abs=0.001)  # what its card says of BM25
    assert found["limit"] == {"at_least": 0.5, "at_most": 0.6}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "titels"), "has the unknown gate 'titels': did you mean 'titles'?"),
        (("--only", "spans", "--without", "spans"), "excludes all gates"),
        (("--only", "bm25", "--set", "bm25.low=0.9"), "bm25.low at 0.9, above bm25.high, 0.8: swap them"),
        (
            ("--set", "questions.difference=0"),
            "the option 'difference' of questions must be a number from 0.001 to 1, not 0",
        ),
        (("--set", "bm25.low=few"), "the option 'low' of bm25 must be a number from 0 to 1, not 'few'"),
        (("--set", "bm25.lowest=0.1"), "bm25 has no option 'lowest': did you mean 'low'?"),
        (("--set", "bm52.low=0.1"), "names a gate that does not run: 'bm52'; did you mean 'bm25'?"),
        (("--only", "spans", "--set", "bm25.low=0.1"), "names a gate that does not run: 'bm25'"),
        (("--set", "bm25.low"), "give GATE.OPTION=VALUE, such as bm25.low=0.6"),
        (("--set", "bm25.low=0.1", "--set", "bm25.low=0.2"), "gives bm25.low twice"),
        (("--chunk-size", "10"), "give at least 100 characters"),
    ],
)
def test_a_wrong_request_ends_with_2(ragsmith: Command, arguments: tuple[str, ...], said: str) -> None:
    ended = ragsmith("dataset", "check", "law", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert not Path("reports").exists()


def test_a_set_with_mistakes_is_a_wrong_request_that_lists_them(ragsmith: Command, law: Dataset) -> None:
    write_dataset(law, "mine")
    rows = Path("mine/questions.jsonl").read_text().splitlines()
    spoilt = [row.replace('"start": ', '"start": 1') for row in rows[:2]]
    Path("mine/questions.jsonl").write_text("\n".join([*spoilt, *rows[2:]]) + "\n")
    ended = ragsmith("dataset", "check", "mine")
    assert ended.code == 2
    assert "law-001" in ended.err
    assert "law-002" in ended.err


# --- gates of one's own ----------------------------------------------------------------------------------------------

OWN = '''
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender
from ragsmith.labelling.checking.gates import gate
from ragsmith.labelling.checking.view import DatasetView


@gate("Is each question short?", paper="none")
def short(view: DatasetView, *, words: int = 30) -> GateFinding:
    """Fail where a question has more words than are allowed."""
    counts = {example.id: len(example.question.split()) for example in view.original.examples}
    most = max(counts.values())
    long = tuple(Offender(id_, f"has {count} words") for id_, count in counts.items() if count > words)
    state = GateState.FAILED if long else GateState.PASSED
    return GateFinding(state, f"the longest question has {most} words", most, Limit(high=words), offenders=long)
'''


def test_a_gate_of_ones_own_is_listed_asked_set_and_shown(spawn: Callable[..., Any]) -> None:
    Path("own.py").write_text(OWN)

    def run(*arguments: str) -> tuple[int, str, str]:
        process = spawn("dataset", *arguments)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    code, out, _ = run("gates", "--import", "own.py")
    assert (code, out.splitlines()[-1].split()) == (0, ["short", "Is", "each", "question", "short?", "short.words=30"])
    own = ("check", "law", "--import", "own.py", "--only", "short", "--html", "page.html")
    code, out, _ = run(*own, "--set", "short.words=100")
    assert (code, "No gate failed: 1 passed." in out) == (0, True)
    code, out, _ = run(*own, "--set", "short.words=3")
    assert (code, "1 gate failed, short: 1 failed." in out) == (1, True)
    assert "Fail where a question has more words than are allowed." in Path("page.html").read_text()
    code, _, err = run(*own, "--set", "short.words=x")
    assert (code, "the option 'words' of short must be a whole number, not 'x'" in err) == (2, True)
    code, _, err = run("check", "law", "--import", "own.py", "--only", "shrt")
    assert (code, "did you mean 'short'?" in err) == (2, True)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def bm25(view): ...", "ValueError: the gate 'bm25' is registered twice"),
        ("def mine(view, *, words=3): ...", "ValueError: the option 'words' of mine needs a type, and a default"),
        ("def mine(view, *, words: int = 'x'): ...", "the option 'words' of mine must be a whole number, not 'x'"),
    ],
)
def test_a_gate_that_is_declared_wrongly_is_refused(ragsmith: Command, source: str, said: str) -> None:
    Path("wrong.py").write_text(f'from ragsmith.labelling.checking.gates import gate\n\n@gate("?")\n{source}\n')
    ended = ragsmith("dataset", "check", "law", "--import", "wrong.py")
    assert ended.code == 2
    assert "wrong.py cannot be imported" in ended.err
    assert said in ended.err


# --- sets that lack something ----------------------------------------------------------------------------------------


def test_documents_as_gold_are_judged_as_documents(law: Dataset) -> None:
    """Against rankings of documents, worked out from those of the chunks."""
    lengths = {document.id: len(document.text) for document in law.documents}
    answered = [example for example in law.examples if example.evidence]
    gold = {example.id: sorted({span.doc for span in example.evidence}) for example in answered}
    coarse = [replace(e, evidence=tuple(Span(doc, 0, lengths[doc]) for doc in gold[e.id])) for e in answered]
    view = DatasetView(make_dataset({"name": "coarse"}, law.documents, coarse))
    found = EvidenceMatching.from_view(view)
    first = {
        one: list(dict.fromkeys(view.chunks[int(place)].doc for place in places))[:5]
        for one, places in view.bm25_top.items()
    }
    assert 0.5 < found.own <= 1
    assert max(found.recall.values()) == 1
    others = [
        len({doc for doc in gold[other] if doc in first[one] and doc not in gold[one]}) / min(5, len(gold[other]))
        for one in gold
        for other in gold
        if one != other
    ]
    assert found.others == pytest.approx(sum(others) / len(others))


def test_only_questions_with_evidence_count_in_the_test(law: Dataset) -> None:
    """What has none has no R, and cannot show a difference of it."""
    half = [
        replace(e, split="test" if i < 40 else "search", evidence=e.evidence if i >= 10 else ())
        for i, e in enumerate(law.examples)
    ]
    found = library.check_dataset(make_dataset({"name": "half"}, law.documents, half), only=["questions"])["questions"]
    assert found.figure == 30
    assert found.sentence.startswith("30 test questions with evidence, in ")


def test_without_answers_guesses_are_not_judged(law: Dataset) -> None:
    found = library.check_dataset(remade(law, answer=""), only=["closed_book", "yes_no", "overlap"])
    assert {finding.gate: finding.state for finding in found.findings} == {
        "overlap": GateState.PASSED,
        "closed_book": GateState.NOT_JUDGED,
        "yes_no": GateState.NOT_JUDGED,
    }


def test_without_evidence_only_questions_and_answers_are_judged(law: Dataset) -> None:
    found = library.check_dataset(remade(law, evidence=(), split=None))
    judged = {finding.gate for finding in found.findings if finding.state is not GateState.NOT_JUDGED}
    assert judged == {"duplicates", "unanswerable", "closed_book", "yes_no"}
    assert found.passed()


def test_without_a_split_the_one_that_is_drawn_is_judged(law: Dataset) -> None:
    found = library.check_dataset(remade(law, split=None), only=["leakage"])
    assert found["leakage"].passed
    assert "drawn" in found["leakage"].sentence


def test_nothing_at_all_is_not_a_good_set(law: Dataset) -> None:
    found = library.check_dataset(make_dataset({"name": "empty"}, law.documents, []))
    assert [finding.gate for finding in found.failed] == ["questions"]
    assert not any(finding.passed for finding in found.findings)


def test_evidence_that_points_nowhere_is_named_and_does_not_stop_the_other_gates(law: Dataset) -> None:
    broken = replace(law.examples[0], evidence=(Span("no such document", 0, 5), Span(law.documents[0].id, 5, 10**9)))
    found = library.check_dataset(make_dataset({"name": "n"}, law.documents, [broken, *law.examples[1:]]))
    assert [finding.gate for finding in found.failed] == ["spans"]
    assert {offender.id for offender in found["spans"].offenders} == {broken.id}


def test_drafted_questions_are_counted(law: Dataset, ragsmith: Command) -> None:
    drafted = [replace(e, origin=Origin("drafted") if i < 40 else None) for i, e in enumerate(law.examples)]
    write_dataset(make_dataset({"name": "half"}, law.documents, drafted), "half")
    ended = ragsmith("dataset", "check", "half", "--only", "yes_no")
    assert "200 questions, 40 of them drafted by a program; " in ended.out.splitlines()[0]


def test_questions_that_documents_do_not_answer_are_no_evidence_for_or_against(law: Dataset) -> None:
    near = [
        replace(e, id=f"{e.id}-not", question=f"Elsewhere, {e.question}", evidence=(), answer="", answerable=False)
        for e in law.examples[:20]
    ]
    found = library.check_dataset(make_dataset({"name": "n"}, law.documents, [*law.examples, *near]))
    assert found.failed == ()
    assert found.ranked == sum(bool(example.evidence) for example in law.examples) == 184


def test_gold_of_whole_documents_is_a_warning(law: Dataset) -> None:
    sizes = {document.id: len(document.text) for document in law.documents}
    whole = [replace(e, evidence=tuple(Span(s.doc, 0, sizes[s.doc]) for s in e.evidence)) for e in law.examples]
    found = library.check_dataset(make_dataset({"name": "n"}, law.documents, whole), only=["spans"])
    assert found["spans"].state is GateState.WARNING
    assert "longer than two chunks" in found["spans"].sentence


def test_questions_in_another_language_are_read_in_it() -> None:
    names = [f"{a}{b}" for a in ("Bra", "Klo", "Dwi", "Fru") for b in ("mel", "nop", "rus", "tig", "wan")]
    lines = [f"Der Garten von {name} hat viele alte Bäume und einen kleinen Brunnen." for name in names]
    document = Document("garten", "Garten", "\n\n".join(lines), language="de")
    starts = [document.text.index(line) for line in lines]
    examples = [
        Example(f"q{i:02}", f"Welcher Baum der Gärten von {name}?", "Ja.", "t", (Span("garten", s, s + len(line)),))
        for i, (name, line, s) in enumerate(zip(names, lines, starts, strict=True))
    ]
    data = make_dataset({"name": "gaerten", "language": "de"}, [document], examples)
    found = library.check_dataset(data, only=["yes_no", "overlap"])
    assert found["overlap"].figure == 1.0  # Baum is Bäume and Gärten is Garten: only the stems agree
    assert found["yes_no"].state is GateState.NOT_JUDGED


def test_an_unknown_gate_is_refused_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="has the unknown gate 'bm52'"):
        library.check_dataset("no such set", without=["bm52"])


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_fetches_nothing_has_no_script_and_escapes(law: Dataset) -> None:
    titled = replace(law, title="<script>alert(1)</script>", examples=law.examples[:60])
    library.check_dataset(titled, html="page.html")
    page = Path("page.html").read_text()
    assert "<script" not in page
    assert "script-src 'none'" in page
    assert "src=" not in page.replace("script-src", "")
    assert 'href="http' not in page
    charts = page.split("<svg ")[1:]
    assert len(charts) >= 6
    for chart in charts:
        drawing = ElementTree.fromstring("<svg " + chart.split("</svg>")[0] + "</svg>")
        assert drawing.get("aria-label")
        for element in drawing.iter():
            for name in ("x", "x1", "x2", "cx"):
                assert 0 <= float(element.get(name, "0%").rstrip("%")) <= 100
    assert len(page) < 100_000


def test_the_same_set_gives_the_same_page(law: Dataset) -> None:
    for name in ("one.html", "other.html"):
        library.check_dataset(law, html=name)
    assert Path("one.html").read_bytes() == Path("other.html").read_bytes()
