"""The bundled data sets fail no gate; each damage is found by its gate, and fails it if no search could be trusted."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from ragsmith.comparison.difference import Power
from ragsmith.comparison.ledger import count_look
from ragsmith.comparison.questions import Clusters, digest_questions
from ragsmith.datasets.bundled import bundled_names
from ragsmith.datasets.dataset import load_dataset, make_dataset
from ragsmith.datasets.relevance import ChunkMap
from ragsmith.datasets.splits import crossfit
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.extensions import Package
from ragsmith.labelling.checking.check import MIN_CHUNK_CHARACTERS, Check, check, select_gates
from ragsmith.labelling.checking.finding import GateState, Limit, not_judged
from ragsmith.labelling.checking.gates import GATES
from ragsmith.labelling.checking.registry import Gate
from ragsmith.labelling.checking.view import PIPELINES, DatasetView
from ragsmith.records.record import RunSettings
from ragsmith.store.store import open_store
from ragsmith.types import Dataset, Document, Example, Span

NAMES = [
    "spans",
    "duplicates",
    "copies",
    "unanswerable",
    "position",
    "length",
    "titles",
    "overlap",
    "closed_book",
    "yes_no",
    "bm25",
    "spread",
    "leakage",
    "questions",
]


@pytest.fixture(scope="module")
def law() -> Dataset:
    return load_dataset("law")


def with_examples(data: Dataset, examples: list[Example]) -> Dataset:
    return make_dataset({"name": data.name}, data.documents, examples)


def with_documents(data: Dataset, documents: list[Document]) -> Dataset:
    return make_dataset({"name": data.name}, documents, data.examples)


def parted(data: Dataset) -> tuple[list[Example], list[Example]]:
    """The questions that the documents answer, and the others; none is in a part of a split."""
    unmarked = [replace(example, split=None) for example in data.examples]
    return [e for e in unmarked if e.evidence], [e for e in unmarked if not e.evidence]


def quoted(data: Dataset, example: Example) -> str:
    """The gold of a question, on one line."""
    texts = {document.id: document.text for document in data.documents}
    return " ".join(" ".join(texts[s.doc][s.start : s.end] for s in example.evidence).split())


# --- one damage each -------------------------------------------------------------------------------------------------


def moved_spans(data: Dataset) -> Dataset:
    """Offsets of another text: all are three characters too small, as if a byte order mark had been counted."""
    return with_examples(
        data,
        [
            replace(e, evidence=tuple(Span(s.doc, max(0, s.start - 3), s.end - 3) for s in e.evidence))
            for e in data.examples
        ],
    )


def lost_document(data: Dataset) -> Dataset:
    """A document is missing to which evidence points."""
    return with_documents(data, [d for d in data.documents if d.id != "registers-act"])


def asked_twice(data: Dataset) -> Dataset:
    """Every fifth question is asked again on the same side, politely."""
    again = [
        replace(e, id=f"{e.id}-again", question=f"Please, {e.question[:1].lower()}{e.question[1:]}")
        for e in data.examples[::5]
    ]
    return with_examples(data, [*data.examples, *again])


def archived_copy(data: Dataset) -> Dataset:
    """An older print of a document, with another first line, lies beside it, and nobody marked it."""
    original = next(d for d in data.documents if d.id == "obligations-code")
    return with_documents(
        data, [*data.documents, replace(original, id="archive", text=f"Print of last year.\n\n{original.text}")]
    )


def answered_now(data: Dataset) -> Dataset:
    """A document was added that answers a question which nothing answered."""
    ask = next(e.question.rstrip("?") for e in data.examples if not e.answerable)
    return with_documents(data, [*data.documents, Document("added", "Added", f"As to {ask}, the answer is 42.")])


def all_at_the_top(data: Dataset) -> Dataset:
    """Documents have long annexes that nobody read: what is asked for lies in their first fifth."""
    rng = random.Random(0)
    vocabulary = [f"{a}{b}{c}" for a in ("bra", "clo", "dwi", "fru") for b in ("mel", "nop", "rus") for c in "aeiou"]
    found = []
    for document in data.documents:
        sentences = [" ".join(rng.choices(vocabulary, k=12)) + "." for _ in range(len(document.text) // 12)]
        annex = "\n\n".join(" ".join(sentences[at : at + 8]) for at in range(0, len(sentences), 8))
        found.append(replace(document, text=f"{document.text}\n\n{annex}\n"))
    return with_documents(data, found)


def in_long_chunks(data: Dataset) -> Dataset:
    """Of the evidence only that is kept which lies in the longest chunks of a document."""
    setup = Experiment(data)
    longest: set[str] = set()
    for document in data.documents:
        chunks = [chunk for chunk in setup.corpus.chunks if chunk.doc == document.id]
        longest |= {c.id for c in sorted(chunks, key=lambda c: -len(c.text))[: len(chunks) // 5]}
    chunk_map = ChunkMap(setup.corpus.chunks)
    kept = [
        replace(e, evidence=tuple(s for s in e.evidence if chunk_map.relevance([s]).relevant <= longest))
        for e in data.examples
    ]
    return with_examples(data, [e for e in kept if e.evidence])


def asked_by_heading(data: Dataset) -> Dataset:
    """Questions were made of the headings that the evidence stands under, and little else."""
    setup = Experiment(data)
    chunks = {chunk.id: chunk for chunk in setup.corpus.chunks}
    found = []
    for example in data.examples:
        under = ""
        if relevant := setup.relevance[example.id].relevant:
            first = chunks[min(relevant)]
            under = f" ({first.title}: {' '.join(first.headings)})"
        found.append(replace(example, question=f"{example.question}{under}" * 2))
    return with_examples(data, found)


def worded_as_the_text(data: Dataset) -> Dataset:
    """Questions are a few words in a row of the evidence."""
    answered, others = parted(data)
    said = [quoted(data, example).split() for example in answered]
    found = [
        replace(e, question=f"What about {' '.join(words[2:7])}?") for e, words in zip(answered, said, strict=True)
    ]
    return with_examples(data, [*found, *others])


def told_in_the_question(data: Dataset) -> Dataset:
    """A quarter of the questions say their answer."""
    told = [
        replace(e, question=f"{e.question} Is it so: {e.answer}") if i % 4 == 0 else e
        for i, e in enumerate(data.examples)
    ]
    return with_examples(data, told)


def always_yes(data: Dataset) -> Dataset:
    """Every third answer begins with yes, and none with no."""
    answers = [e.answer.removeprefix("No.").removeprefix("No;").removeprefix("No,").strip() for e in data.examples]
    found = [
        replace(e, answer=f"Yes. {answer}" if i % 3 == 0 else answer)
        for i, (e, answer) in enumerate(zip(data.examples, answers, strict=True))
    ]
    return with_examples(data, found)


def shifted_rows(data: Dataset) -> Dataset:
    """A column of the table of questions slipped: all have the evidence of another."""
    examples, others = parted(data)
    below = [*examples[37:], *examples[:37]]
    found = [replace(e, evidence=o.evidence) for e, o in zip(examples, below, strict=True)]
    return with_examples(data, [*found, *others])


def all_or_nothing(data: Dataset) -> Dataset:
    """Half of the questions quote their evidence, the others have that of somebody else: nothing in between."""
    examples, others = parted(data)
    found = []
    for place, example in enumerate(examples):
        if place % 2:
            found.append(replace(example, evidence=examples[(place + 38) % len(examples)].evidence))
        else:
            found.append(replace(example, question=quoted(data, example)))
    return with_examples(data, [*found, *others])


def asked_of_each_contract(data: Dataset) -> Dataset:
    """A tenth of the questions have the words of another one about another document, which they do not name."""
    answered, others = parted(data)
    apart = {example.evidence[0].doc: example for example in answered}
    words = [example.question for example in apart.values()][:2]
    told = {example.id: words[i % 2] for i, example in enumerate(apart.values())}
    return with_examples(data, [*(replace(e, question=told.get(e.id, e.question)) for e in answered), *others])


def one_governing_law(data: Dataset) -> Dataset:
    """A fifth of the questions of a kind have one short answer."""
    found = [replace(e, answer="Ostrevane.", type="law") if i % 5 == 0 else e for i, e in enumerate(data.examples)]
    return with_examples(data, found)


def split_by_turns(data: Dataset) -> Dataset:
    """Every other question is a test question, whatever it is about."""
    found = [replace(e, split="test" if i % 2 else "search") for i, e in enumerate(data.examples)]
    return with_examples(data, found)


def a_dozen(data: Dataset) -> Dataset:
    """There are twelve questions."""
    return with_examples(data, [replace(e, split=None) for e in data.examples[:12]])


def another_number(data: Dataset) -> Dataset:
    """A question is answered with another number than its document has."""
    text = "Backups are kept for 70 days."
    asked = Example("backups", "How long are backups kept?", "35 days.", "fact", (Span("backups", 0, len(text)),))
    added = with_documents(data, [*data.documents, Document("backups", "Backups", text)])
    return with_examples(added, [*data.examples, asked])


WRONG: list[tuple[Callable[[Dataset], Dataset], str]] = [
    (moved_spans, "spans"),
    (lost_document, "spans"),
    (asked_of_each_contract, "duplicates"),
    (told_in_the_question, "closed_book"),
    (shifted_rows, "bm25"),
    (split_by_turns, "leakage"),
    (a_dozen, "questions"),
]
"""Damages after which no search can be trusted."""

KNOWN: list[tuple[Callable[[Dataset], Dataset], str]] = [
    (another_number, "spans"),
    (asked_twice, "duplicates"),
    (archived_copy, "copies"),
    (answered_now, "unanswerable"),
    (all_at_the_top, "position"),
    (in_long_chunks, "length"),
    (asked_by_heading, "titles"),
    (worded_as_the_text, "overlap"),
    (one_governing_law, "closed_book"),
    (always_yes, "yes_no"),
    (all_or_nothing, "spread"),
]
"""Properties that are worth knowing, and may be as users ask."""


# --- tests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", bundled_names("datasets"))
def test_the_bundled_data_sets_pass_all_gates(name: str) -> None:
    data = load_dataset(name)
    found = check(data)
    assert {finding.gate: finding.sentence for finding in found.failed} == {}
    unjudged = {"unanswerable"} if all(example.answerable for example in data.examples) else set()
    assert {finding.gate for finding in found.in_state(GateState.NOT_JUDGED)} == unjudged
    # they have a hundred test questions at most, too few for a difference of 0.03, and say so
    assert {finding.gate for finding in found.in_state(GateState.WARNING)} == {"questions"}
    assert [finding.gate for finding in found.findings] == NAMES


@pytest.mark.parametrize(("damage", "gate"), WRONG, ids=[damage.__name__ for damage, _ in WRONG])
def test_a_damaged_set_fails_the_gate_of_its_damage_and_no_other(
    law: Dataset, damage: Callable[[Dataset], Dataset], gate: str
) -> None:
    found = check(damage(law))
    assert [finding.gate for finding in found.failed] == [gate]
    assert found[gate].advice
    assert not found.passed()


@pytest.mark.parametrize(("change", "gate"), KNOWN, ids=[change.__name__ for change, _ in KNOWN])
def test_a_property_to_know_is_a_warning(law: Dataset, change: Callable[[Dataset], Dataset], gate: str) -> None:
    found = check(change(law))
    assert found.failed == ()
    assert found[gate].state is GateState.WARNING
    assert found[gate].advice
    assert found.passed()
    assert not found.passed(strict=True)


def in_sections(sizes: list[int], tested: int) -> Dataset:
    """Documents of one section each, with so many questions; those of the first ``tested`` documents are the test."""
    documents, examples = [], []
    for at, size in enumerate(sizes):
        lines = [f"Lamp {at}-{n} hangs on hook {7 * n + at} in the hall of house {at}." for n in range(size)]
        text = f"# House {at}\n\n" + "\n\n".join(lines) + "\n"
        documents.append(Document(f"house-{at}", f"House {at}", text))
        for n, line in enumerate(lines):
            span = Span(f"house-{at}", start := text.index(line), start + len(line))
            part = "test" if at < tested else "search"
            asked = f"Where does lamp {at}-{n} hang?"
            examples.append(Example(f"q{at}-{n}", asked, f"hook {7 * n + at}", "lamps", (span,), part))
    return make_dataset({"name": "houses"}, documents, examples)


def test_a_test_in_one_group_can_show_nothing_and_it_is_said_what_to_do() -> None:
    found = check(in_sections([8, 20], 1), only=["questions"])["questions"]
    assert found.state is GateState.WARNING
    assert found.sentence == "8 test questions, in 1 group: with fewer than 8 groups nothing can be shown"
    assert (found.figure, found.limit) == (1.0, Limit(low=8.0))
    assert found.advice.startswith("questions whose gold lies together count as one group, so ask about other")


def test_where_all_questions_have_groups_enough_a_crossfit_is_named() -> None:
    data = in_sections([4] * 12, 3)
    found = check(data, only=["questions"])["questions"]
    assert found.sentence == "12 test questions, in 3 groups: with fewer than 8 groups nothing can be shown"
    said = "`ragsmith search --verdict crossfit` tests 48 questions, in 12 groups, without new ones; "
    assert found.advice.startswith(said)
    assert sum(len(split.test) for split in crossfit(data, RunSettings().folds)) == 48


def test_a_crossfit_is_named_with_the_option_that_it_needs_after_a_look_at_some_questions(tmp_path: Path) -> None:
    data = in_sections([4] * 12, 3)
    with open_store(tmp_path / "c.sqlite") as store:
        count_look(store, "a comparison", digest_questions(data, data.examples[:3]).values(), "2026-11-28")
    assert check(data, only=["questions"])["questions"].advice.startswith(
        "`ragsmith search --verdict crossfit --test` tests 48 questions, in 12 groups, at a lower level, as some were "
        "looked at before; "
    )


def test_questions_without_a_test_are_counted_in_groups_too() -> None:
    data = in_sections([30], 0)
    found = check(with_examples(data, [replace(e, split=None) for e in data.examples]), only=["questions"])["questions"]
    assert found.sentence.startswith("30 questions, without a test, in 1 group: ")


@pytest.mark.parametrize("documents", [7, 8, 9])
def test_eight_groups_are_enough_to_say_what_can_be_shown(documents: int) -> None:
    found = check(in_sections([3] * (documents + 4), documents), only=["questions"])["questions"]
    counted = f"{3 * documents} test questions, in {documents} groups"
    assert found.sentence.startswith(
        f"{counted}: with fewer than 8" if documents < 8 else f"{counted}; a difference of "
    )


def test_copies_of_documents_and_shared_passages_are_named_without_a_limit(law: Dataset) -> None:
    footer = "Internal: do not pass on to customers."
    changed = [replace(document, text=f"{document.text}\n\n{footer}\n") for document in law.documents]
    twin = replace(changed[0], id="twin")
    printed = replace(changed[1], id="print", text=f"Print of last year.\n\n{changed[1].text}")
    found = check(with_documents(law, [*changed, twin, printed]), only=["copies"])["copies"]
    why = {offender.id: offender.why for offender in found.offenders}
    assert why["twin"] == f"has the text of {changed[0].id}, and is left out"
    assert why["print"].endswith(f" of its words in common with {changed[1].id}")
    assert f"has, as {len(changed) - 1} other documents do, '{footer}'" in why.values()
    assert "; 3 documents are copies or versions, or share passages with many others" in found.sentence


def test_documents_that_differ_only_in_numbers_are_named(law: Dataset) -> None:
    first = law.documents[0]
    older = replace(first, id="older", text=re.sub(r"\d+", "7", first.text))
    found = check(with_documents(law, [*law.documents, older]), only=["copies"])["copies"]
    why = {offender.id: offender.why for offender in found.offenders}
    assert why["older"] == f"differs from {first.id} only in numbers or dates, as an older version does"


def test_every_gate_has_a_damage() -> None:
    assert {gate for _, gate in [*WRONG, *KNOWN]} == {known.name for known in GATES} == set(NAMES)


def smallest_shown(found: Check) -> float:
    return float(found["questions"].sentence.rpartition("one of ")[2])


def test_the_power_is_that_of_the_verdict_with_its_groups_and_rivals(law: Dataset) -> None:
    found = check(law, only=["questions"])
    test = [example for example in law.examples if example.split == "test"]
    clusters = Clusters.from_examples(law, test)
    assert f"in {len(clusters.groups)} groups; " in found["questions"].sentence
    view = DatasetView(law)
    asked = [one for group in clusters.groups for one in group]
    least = []
    for first, second in combinations(PIPELINES, 2):
        a, b = view.ranks(first).quality, view.ranks(second).quality
        each = [a[one] - b[one] for one in asked]
        least.append(Power(each, clusters.group_numbers(asked), 0.05 / 5).smallest() or 0.0)
    assert smallest_shown(found) == pytest.approx(sorted(least)[5], abs=6e-4)
    alone = check(law, only=["questions"], options={"questions": {"rivals": 1}})
    assert smallest_shown(alone) < smallest_shown(found)


@pytest.mark.parametrize("count", [1, 8])
def test_questions_that_nothing_answers_change_neither_groups_nor_power(count: int) -> None:
    data = in_sections([3] * 14, 10)
    asked = [
        Example(f"u{n}", f"Who painted lamp {n}?", "", "lamps", (), "test", answerable=False) for n in range(count)
    ]
    plain, found = (
        check(one, only=["questions"])["questions"].sentence
        for one in (data, with_examples(data, [*data.examples, *asked]))
    )
    assert found.replace(" with evidence", "") == plain


# --- what holds of every gate ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_gate_declares_itself(name: str) -> None:
    known = GATES[name]
    assert known.fn.__name__ == name
    assert known.asks.endswith("?")
    assert known.reasons[0].startswith(("Fail", "Warn"))
    with pytest.raises(UsageError, match=f"{name} has no option 'nothing'"):
        known.check_options({"nothing": 1})
    for option in known.options:
        with pytest.raises(UsageError, match=f"the option '{option}' of {name} must be"):
            known.check_options({option: "no number"})


@pytest.mark.parametrize("name", NAMES)
def test_a_gate_judges_nothing_of_an_empty_set(law: Dataset, name: str) -> None:
    found = check(with_examples(law, []), only=[name])[name]
    assert found.gate == name
    assert found.state is (GateState.FAILED if name == "questions" else GateState.NOT_JUDGED)


def test_what_is_no_finding_is_refused(law: Dataset) -> None:
    wrong = Gate(name="wrong", asks="Is it?", fn=lambda view: 7)
    with pytest.raises(UsageError, match="the gate wrong returned 7: return a GateFinding"):
        wrong(DatasetView(with_examples(law, [])))


def test_a_package_that_is_not_installed_is_said_before_anything_is_read() -> None:
    wants = Gate(
        name="wants",
        asks="Is it?",
        fn=lambda view: not_judged("?"),
        package=Package("no_such_module", "nothing", "extra"),
    )
    GATES.add(wants)
    try:
        with pytest.raises(UsageError, match=r"nothing is not installed: run  pip install 'ragsmith\[extra\]'"):
            select_gates(["wants"], (), None, MIN_CHUNK_CHARACTERS)
    finally:
        GATES.remove("wants")
