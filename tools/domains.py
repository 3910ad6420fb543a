"""What is in the bundled domains, and whether each is what its card says: counts, gates, splits, cross-references.

python tools/domains.py                   every bundled domain
python tools/domains.py FOLDER...         these, wherever they lie
python tools/domains.py --json            the same for programs

Exit code 1 where something does not hold; every mistake is a line. A domain is what has questions annotated
(`annotations.jsonl`); of one that has none only counts and gates are told. It takes seconds a domain, most of them for
the gates of `ragsmith dataset check`; no model is asked but those that are part of the program.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this checkout is described, not a package that happens to be installed

from annotations import TRAITS, Annotation, read_annotations

from ragsmith.datasets.bundled import bundled_domains, find_bundled
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import UsageError
from ragsmith.labelling.checking.check import check
from ragsmith.labelling.checking.finding import GateState, Limit, format_number
from ragsmith.text.strict_yaml import read_yaml
from ragsmith.types import Dataset, Document, Example

TYPES = ("factual", "interpretation", "long_answer")
PAPER: Mapping[str, tuple[int, int, int]] = {
    "mathematics": (25, 34, 41),
    "finance": (19, 51, 30),
    "medicine": (23, 53, 24),
    "defense": (24, 46, 30),
    "computer_science": (30, 37, 33),
    "law": (23, 49, 28),
}
"""Percent of the questions of a domain that are of each type, in the table of the RAGSmith paper."""

NEAR = 2.0
"""Points by which a share of a type may be off."""

PARTS = {"search": 100, "test": 100}
MOVED: Mapping[str, int] = {"law": 8}
"""Unanswerable test questions of a domain that are searched on, as no other question of its search half is one."""

CLUSTERS, TESTED = 16, 8
LARGEST = 3
"""Documents that a cluster may have, unless its questions are in groups."""

AT_LEAST: Mapping[str, int] = {
    "across_documents": 50,
    "other_words": 60,
    "table": 20,
    "newer_version": 16,
    "unanswerable": 16,
}
"""Questions with a trait."""

WORDINGS = 16
FROM_SPANS, GUESSED = 0.97, 0.03
KNOWN: Mapping[tuple[str, str], Limit] = {
    ("law", "guessed without documents, latest"): Limit(high=0.12),
    ("law", "guessed without documents, tested"): Limit(high=0.033),
}
"""What a domain does not hold and its card says why; it may become no worse.

Law's first hundred questions stay as they are, and were read by another only when the second hundred was there. They
are searched on; none of them tests. Of the 92 that test, three can be guessed.
"""
ALLOWED_WARNINGS = frozenset({"questions"})
"""A hundred test questions show no difference of 0.03, which is said and no fault of the set."""

KINDS: Sequence[tuple[str, str]] = (
    ("tables", r"\.csv$|tables?-|schedule|fees|catalogue"),
    ("source and configuration", r"\.(py|sql|ya?ml|c|h|sh|ts|json|toml)$"),
    ("correspondence", r"letter|correspondence|mail|signals|answer|circular|notice|postscript"),
    ("minutes", r"minutes|seminar"),
    (
        "report or decision",
        r"report|post-?mortem|review|after-action|board|decision|determination|rating|case|trial|incident",
    ),
    ("contract", r"contract|agreement|amendment|prospectus|supplement|articles|charter"),
    ("statute, regulation or rules", r"act\b|act-|regulation|rules|statute|order|code|policy|exceptions|procedure"),
    (
        "handbook, manual or guide",
        r"handbook|manual|guide|leaflet|reference|monograph|formulary|runbook|release-notes|chapter",
    ),
    ("lecture notes and exercises", r"lecture|sheet|marking|examin|errata"),
)
"""Kinds of documents, by what their names say; the first that fits."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A count or a share of a domain, None where there is nothing to count, and what it may be."""

    name: str
    value: float | None
    limit: Limit | None = None

    @property
    def holds(self) -> bool:
        """Whether it is what it may be; without a value there is nothing to hold."""
        return self.limit is None or self.value is None or self.limit.holds(self.value)


def read_clusters(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the documents of each cluster of the data set in ``folder``; none without the file.

    Raises:
        UsageError: the file is invalid; the message has file and line.
    """
    path = folder / "clusters.yaml"
    if not path.is_file():
        return {}
    tree = read_yaml(path)
    form = "clusters are 'name: [document, ...]'"
    clusters = {}
    for name, documents in tree.mapping(form=form).items():
        if (
            not isinstance(documents, list)
            or not documents
            or not all(isinstance(document, str) for document in documents)
        ):
            raise tree.error((name,), form)
        clusters[name] = tuple(map(str, documents))
    return clusters


@dataclass(frozen=True)
class Domain:
    """A data set in a folder, with what stands beside its questions."""

    folder: Path
    data: Dataset
    annotations: Mapping[str, Annotation]
    clusters: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, folder: Path) -> Domain:
        """Read the data set in ``folder``.

        Raises:
            UsageError: something of it cannot be read; the message lists all mistakes of a file.
        """
        return cls(folder, load_dataset(folder), read_annotations(folder), read_clusters(folder))

    @property
    def noted(self) -> Sequence[tuple[Example, Annotation]]:
        """The questions that are annotated."""
        return [(e, self.annotations[e.id]) for e in self.data.examples if e.id in self.annotations]


# --- what it counts ---------------------------------------------------------------------------------------------------


def figures(domain: Domain) -> Iterator[Figure]:
    """Counts and shares of a domain, with what they may be where it is annotated."""
    data, examples = domain.data, domain.data.examples
    asked = bool(domain.annotations)
    gold = {span.doc for example in examples for span in example.evidence}
    yield Figure("questions", len(examples), _exactly(sum(PARTS.values()), asked))
    moved = MOVED.get(data.name, 0)
    for part, number in (("search", PARTS["search"] + moved), ("test", PARTS["test"] - moved)):
        yield Figure(f"{part} questions", _count(examples, part), _exactly(number, asked))
    yield Figure("documents", len(data.documents), Limit(20, 25) if asked else None)
    yield Figure(
        "words", sum(len(one.text.split()) for one in data.documents), Limit(30_000, 50_000) if asked else None
    )
    yield Figure("documents with gold", len(gold) / len(data.documents), Limit(low=0.95))
    yield Figure("spans", sum(len(example.evidence) for example in examples))
    for kind, count in Counter(kind_of(document) for document in data.documents).most_common():
        yield Figure(f"kind: {kind}", count)
    shares = PAPER.get(data.name) if asked else None
    for place, type_ in enumerate(sorted({e.type for e in examples}, key=_type_order)):
        share = 100 * sum(example.type == type_ for example in examples) / len(examples)
        limit = Limit(shares[place] - NEAR, shares[place] + NEAR) if shares and type_ in TYPES else None
        yield Figure(f"percent {type_}", share, limit)
    if asked:
        yield from _annotated(domain)


def _annotated(domain: Domain) -> Iterator[Figure]:
    noted = domain.noted
    placed = [(example, note) for example, note in noted if example.answerable]
    sides = {part: {note.cluster for example, note in placed if example.split == part} for part in PARTS}
    divided = {note.group for _, note in noted if note.group}
    yield Figure("clusters", len(domain.clusters), Limit(low=CLUSTERS) if not divided else None)
    yield Figure("clusters or groups tested", len(_units(domain, "test")), Limit(low=TESTED))
    yield Figure("clusters on both sides", len(sides["search"] & sides["test"]), None if divided else Limit(high=0))
    for trait in TRAITS:
        having = [example for example, note in noted if trait in note.traits]
        yield Figure(trait, len(having), Limit(low=AT_LEAST[trait]))
        yield Figure(f"{trait}, tested", _count(having, "test"))
    yield Figure("with other wordings", sum(bool(note.wordings) for _, note in noted), Limit(low=WORDINGS))
    read = [(example, note.readings) for example, note in noted if note.readings]
    yield Figure("read by another", len(read), Limit(low=len(noted)))
    for name, which in (("first", 0), ("latest", -1)) if read else ():
        able = [readings[which].from_spans for example, readings in read if example.answerable]
        guessed = [readings[which].without_documents for _, readings in read]
        limited = which == -1
        yield Figure(f"answered from spans, {name} reading", _share(able), Limit(low=FROM_SPANS) if limited else None)
        called = f"guessed without documents, {name}"
        allowed = KNOWN.get((domain.data.name, called), Limit(high=GUESSED))
        yield Figure(called, _share(guessed), allowed if limited else None)
    if tested := [readings[-1].without_documents for example, readings in read if example.split == "test"]:
        called = "guessed without documents, tested"
        yield Figure(called, _share(tested), KNOWN.get((domain.data.name, called), Limit(high=GUESSED)))
    found = references(domain)
    for kind, some in (
        ("by title", [one for one in found if one.title]),
        ("in a cluster", [one for one in found if not one.title]),
    ):
        yield Figure(f"references to numbered places, {kind}", len(some))
        yield Figure(
            f"of those {kind}, not there",
            sum(not one.holds for one in some),
            Limit(high=0) if kind == "by title" else None,
        )


def gate_figures(domain: Domain) -> Iterator[tuple[Figure, GateState, str]]:
    """What every gate of `ragsmith dataset check` finds, with its state and its sentence."""
    for finding in check(domain.data).findings:
        yield Figure(f"gate: {finding.gate}", finding.figure, finding.limit), finding.state, finding.sentence


def kind_of(document: Document) -> str:
    """The kind of a document, as its name tells it."""
    return next((kind for kind, pattern in KINDS if re.search(pattern, document.id)), "other")


def _units(domain: Domain, part: str) -> set[tuple[str, str]]:
    """What questions of a part are independent by: their cluster, or their group in one that is divided."""
    return {(note.cluster, note.group) for example, note in domain.noted if example.split == part}


def _count(examples: Sequence[Example], part: str) -> int:
    return sum(example.split == part for example in examples)


def _share(said: Sequence[bool]) -> float:
    return sum(said) / len(said)


def _exactly(count: int, asked: bool) -> Limit | None:
    return Limit(count, count) if asked else None


def _type_order(type_: str) -> tuple[int, str]:
    return (TYPES.index(type_) if type_ in TYPES else len(TYPES)), type_


# --- what has to hold -------------------------------------------------------------------------------------------------


def mistakes(domain: Domain) -> Iterator[str]:
    """What does not hold of an annotated domain, in sentences; figures out of their limits come first."""
    for figure in figures(domain):
        if figure.value is not None and not figure.holds:
            yield f"{figure.name}: {format_number(figure.value)}, and not {figure.limit}"
    if not domain.annotations:
        return
    examples = {example.id: example for example in domain.data.examples}
    for missing in sorted(examples.keys() ^ domain.annotations.keys()):
        yield f"{missing}: is in {'questions' if missing in examples else 'annotations'}.jsonl alone"
    yield from _wrong_clusters(domain)
    for example, note in domain.noted:
        yield from (f"{example.id}: {said}" for said in _wrong_note(domain, example, note))
    yield from (
        f"{one.document}: {one.text!r}: {one.title} has no {one.unit}"
        for one in references(domain)
        if one.title and not one.holds
    )


def _wrong_clusters(domain: Domain) -> Iterator[str]:
    places: defaultdict[str, list[str]] = defaultdict(list)
    divided = {note.cluster for _, note in domain.noted if note.group}
    for name, documents in domain.clusters.items():
        for document in documents:
            places[document].append(name)
        if len(documents) > LARGEST and name not in divided:
            yield f"cluster {name}: joins {len(documents)} documents, and {LARGEST} are the most"
    known = {document.id for document in domain.data.documents} | {id_ for id_, _ in domain.data.merged}
    for document in sorted(known | places.keys()):
        if document not in known:
            yield f"clusters.yaml: there is no document {document}"
        elif len(places[document]) != 1:
            yield f"clusters.yaml: {document} is in {len(places[document])} clusters, and not in one"
    parts: defaultdict[tuple[str, str], set[str | None]] = defaultdict(set)
    for example, note in domain.noted:
        if example.answerable:  # a question without gold has no place in the documents
            parts[note.cluster, note.group].add(example.split)
    for (cluster, group), found in sorted(parts.items()):
        if len(found) > 1:
            yield f"cluster {cluster}{f', group {group}' if group else ''}: its questions are in several parts"


def _wrong_note(domain: Domain, example: Example, note: Annotation) -> Iterator[str]:
    home = domain.clusters.get(note.cluster)
    if home is None:
        yield f"there is no cluster {note.cluster}"
    elif strange := sorted({span.doc for span in example.evidence} - set(home)):
        yield f"its evidence lies in {strange[0]}, which is not in the cluster {note.cluster}"
    for trait, holds in (
        ("across_documents", len({span.doc for span in example.evidence}) > 1),
        ("unanswerable", not example.answerable),
    ):
        if (trait in note.traits) != holds:
            yield f"is {'' if holds else 'not '}{trait.replace('_', ' ')}, and its traits say otherwise"
    texts = [_plain(text) for text in (example.answer, note.paraphrase, note.wrong)]
    if not texts[0] or len(set(texts)) < len(texts):
        yield "answer, paraphrase and wrong answer are not three different texts"
    asked = [_plain(text) for text in (example.question, *note.wordings)]
    if len(set(asked)) < len(asked) or len(note.wordings) == 1 or len(note.wordings) > 3:
        yield "its other wordings are not two or three that differ"


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def elsewhere(domain: Domain) -> Iterator[str]:
    """Numbered places that no document near names by title and none near has: of texts outside of the set, or wrong."""
    for one in references(domain):
        if not one.title and not one.holds:
            yield f"{one.document}: {one.text!r}: nothing near has {one.unit}"


# --- cross-references -------------------------------------------------------------------------------------------------

UNITS = "section|article|rule|clause|chapter|paragraph|part|regulation|annex|table|question|problem|schedule|step"
NUMBER = r"\d+(?:\.\d+)*[a-z]?|[A-Z](?![\w-])"
REFERENCE = re.compile(
    rf"\b(?P<unit>(?i:{UNITS})s?) (?P<number>{NUMBER})(?:\([\da-z]+\))*(?:,? (?i:and|to|or) (?:{NUMBER}))?"
    r"(?:,? (?i:of|in) (?P<rest>[^\n.;:|]{3,120}))?",
)
TITLE_FIRST = r"(?P<title>{names}),? (?i:\(?)(?P<unit>(?i:{units})s?) (?P<number>{number})"
ARTICLES = r"(?:the|our|these|this|its|their|that|his|her|your) "


@dataclass(frozen=True, slots=True)
class Reference:
    """A place that a document names: ``section 4 of the Handbook``, or ``section 4`` of itself or its neighbours.

    ``title`` is the title that it names, if a document of the set has it; ``holds`` says whether the place is there.
    """

    document: str
    text: str
    title: str
    unit: str
    holds: bool


def references(domain: Domain) -> list[Reference]:
    """The numbered places that documents name, each looked up.

    By title, or by what a title is called for short (``DD-14``), the place has to be in one of the documents of that
    name, as editions share one. Without, it has to be in the document itself or one of its cluster; what is cited from
    outside of the set is not found there. A place has its number in a heading, or at the beginning of a line or a row.
    """
    documents = domain.data.documents
    titled: defaultdict[str, list[Document]] = defaultdict(list)
    for document in documents:
        for name in names(document.title):
            titled[name].append(document)
    listed = "|".join(re.escape(name) for name in sorted(titled, key=len, reverse=True))
    behind = re.compile(rf"(?:{ARTICLES})?(?:{listed})\b", re.IGNORECASE)
    before = re.compile(TITLE_FIRST.format(names=rf"(?i:{listed})", units=UNITS, number=NUMBER))
    numbers = {document.id: numbered(document.text) for document in documents}
    near = {one: members for members in domain.clusters.values() for one in members}
    found = []
    for document in documents:
        lines = (line for line in document.text.replace("*", "").splitlines() if not line.startswith("#"))
        text = " ".join(" ".join(lines).split())
        ends = {match.end("number"): match["title"].lower() for match in before.finditer(text)}
        for match in REFERENCE.finditer(text):
            name = ends.get(match.end("number"), "")
            if not name and match["rest"] and (title := behind.match(match["rest"])):
                name = re.sub(rf"^{ARTICLES}", "", title[0].lower())
            places = [one.id for one in titled[name]] if name else near.get(document.id, (document.id,))
            holds = any(match["number"].lower() in numbers.get(one, ()) for one in places)
            unit = f"{match['unit'].lower()} {match['number']}"
            if unit.lower() in listed.lower().replace("\\", ""):  # a part of a title is no place in it
                continue
            found.append(
                Reference(document.id, text[max(0, match.start() - 30) : match.end()][:110].strip(), name, unit, holds)
            )
    return found


def names(title: str) -> set[str]:
    """What a document may be called: its title, with and without brackets, its parts at a colon, and its number."""
    whole = title.lower().replace('"', "").strip()
    parts = {whole, re.sub(r"\s*\(.*?\)", "", whole)}
    parts |= {piece.strip() for part in set(parts) for piece in (*part.split(":"), part.split(",")[0])}
    codes = re.findall(r"\b[A-Z]{2,}[- ]?\d[\w/-]*|\b[A-Z]{2}/[\w/]+", title)
    return {part for part in parts if len(part.split()) > 1 or len(part) > 10} | {code.lower() for code in codes}


def numbered(text: str) -> set[str]:
    """The numbers and letters that units of a text have."""
    label = rf"(?:(?:{UNITS}|§) ?)?\(?(\d+(?:\.\d+)*[a-z]?|[a-z])\b"
    lines = (re.match(rf"[#|*>\s-]*{label}", line, re.IGNORECASE) for line in text.splitlines())
    return {match[1].lower() for match in lines if match}


# --- the page ---------------------------------------------------------------------------------------------------------

BY_DOMAIN = "by domain"
"""The limit of a figure that may be one thing in one domain and another in the next; --json has each."""


def main(arguments: Sequence[str]) -> int:
    """Print what is asked for, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="domains [all that are bundled]")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    folders = given.folders or [find_bundled("datasets", one) for one in bundled_domains()]
    of_name = Counter(folder.resolve().name for folder in folders)
    told: dict[str, dict[str, Any]] = {}
    for folder in folders:
        name = folder.resolve().name
        called = name if of_name[name] == 1 else str(folder)
        try:
            told[called] = _told(Domain.read(folder))
        except UsageError as error:
            told[called] = {"figures": {}, "mistakes": str(error).splitlines(), "elsewhere": []}
    if given.json:
        print(json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _say(told)
    return int(any(one["mistakes"] for one in told.values()))


def _told(domain: Domain) -> dict[str, Any]:
    wrong = list(mistakes(domain))
    listed = [(figure.name, figure.value, figure.limit) for figure in figures(domain)]
    for figure, state, sentence in gate_figures(domain):
        listed.append((figure.name, figure.value, figure.limit))
        name = figure.name.removeprefix("gate: ")
        if state is GateState.FAILED or (
            domain.annotations and state is GateState.WARNING and name not in ALLOWED_WARNINGS
        ):
            wrong.append(f"{figure.name} {state.value}: {sentence}")
    shown = {name: {"value": value, "limit": None if limit is None else str(limit)} for name, value, limit in listed}
    return {"figures": shown, "mistakes": wrong, "elsewhere": list(elsewhere(domain))}


def _say(told: Mapping[str, dict[str, Any]]) -> None:
    limits: dict[str, set[str]] = {}
    for one in told.values():
        for name, figure in one["figures"].items():
            limits.setdefault(name, set()).add(figure["limit"] or "")
    names = {name: min(its) if len(its) == 1 else BY_DOMAIN for name, its in limits.items()}
    order = sorted(names, key=lambda name: (name.startswith("gate: "), name.startswith("kind: ")))
    head = ["", *told, "limit"]
    rows = [[name, *(_value(one["figures"].get(name)) for one in told.values()), names[name]] for name in order]
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    for row in (head, *rows):
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)),
        ]
        print("  ".join([*cells, row[-1]]).rstrip())
    for name, one in told.items():
        print()
        print(f"{name}: {len(one['mistakes'])} mistakes" if one["mistakes"] else f"{name}: everything holds")
        for said in one["mistakes"]:
            print(f"  {said}")
        for said in one["elsewhere"]:
            print(f"  to be read: {said}")


def _value(figure: Mapping[str, Any] | None) -> str:
    if figure is None or figure["value"] is None:
        return "-"
    value = figure["value"]
    return f"{value:,.0f}" if float(value).is_integer() and value > 1 else format_number(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
