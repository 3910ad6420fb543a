"""How many questions find their evidence again when only question and answer are known, and what repair finds.

`python benchmarks/bench_anchor.py [DATA]` prints for each data set, with its evidence removed, the share of questions
that are anchored right and wrong, ambiguous (and how often the gold is among the candidates), and not found.
An anchor is right if it overlaps the gold: at least half of it lies in a gold span, or half of a gold span in it. Then
the documents are edited at 20 places and the evidence is repaired. DATA is the folder of the published data sets.

With `--learn` it prints the numbers of `ragsmith/datasets/anchoring/answers.py`, learned on the questions that are not
judged: the search questions of the bundled data sets, every other question of HotpotQA and every other page of TAT-QA.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ragsmith.datasets.anchoring.anchor import EvidenceFinder
from ragsmith.datasets.anchoring.answers import FEATURES, AnswerFinder, predict_probabilities
from ragsmith.datasets.anchoring.matches import NoMatchReason
from ragsmith.datasets.anchoring.question_lists import ListedQuestion
from ragsmith.datasets.anchoring.repair import EvidenceRepair, OldEvidence, RepairedEvidence, count_match_types
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.importers import import_dataset
from ragsmith.text.markdown import BlockType, parse_blocks
from ragsmith.text.words import sentences
from ragsmith.types import Dataset, Example, Span

BUNDLED = ("law", "workshop")
PUBLISHED = ("ragsmith_law_10", "ragsmith_finance_10", "hotpotqa_100", "tatqa_dev")
PARSER = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
PARSER.add_argument("data", type=Path, nargs="?", default=Path("../shared/data"), help="folder of the published sets")
PARSER.add_argument("--learn", action="store_true", help="print the learned numbers")
PARSER.add_argument("--repair", action="store_true", help="only repair after edits")
PARSER.add_argument("--wrong", action="store_true", help="print what was anchored wrong, too")
GIVEN = PARSER.parse_args()
DATA = GIVEN.data


def data_set(name: str) -> Dataset:
    """A data set by name; of a bundled one the questions that have evidence."""
    if name not in BUNDLED:
        return import_dataset(DATA / name).dataset
    data = load_dataset(name)
    return replace(data, examples=tuple(example for example in data.examples if example.evidence))


def divided(name: str, data: Dataset) -> tuple[list[Example], list[Example]]:
    """The questions to learn on, and those to judge on."""
    if name in BUNDLED:
        learn = [example.split == "search" for example in data.examples]
    elif name == "hotpotqa_100":
        learn = [number % 2 == 0 for number in range(len(data.examples))]
    elif name == "tatqa_dev":
        pages = {document.id: number for number, document in enumerate(data.documents)}
        learn = [pages[example.evidence[0].doc] % 2 == 0 for example in data.examples]
    else:
        learn = [False for _ in data.examples]
    marked = list(zip(data.examples, learn, strict=True))
    return [example for example, known in marked if known], [example for example, known in marked if not known]


def right(span: Span, gold: tuple[Span, ...]) -> bool:
    """Whether a span overlaps the gold by half of either."""
    overlaps = ((min(span.end, g.end) - max(span.start, g.start), g) for g in gold if g.doc == span.doc)
    return any(2 * overlap >= min(span.end - span.start, g.end - g.start) for overlap, g in overlaps)


def judge(name: str) -> None:
    """Print what becomes of the questions of a data set that were not learned on."""
    data = data_set(name)
    _, examples = divided(name, data)
    started = time.perf_counter()
    anchor = EvidenceFinder(data.documents)
    asked = [ListedQuestion(n, example.id, example.question, example.answer) for n, example in enumerate(examples, 1)]
    found = anchor.anchor(asked)
    seconds = time.perf_counter() - started
    gold = {example.id: example.evidence for example in examples}
    counts: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for each in found.anchored:
        correct = all(right(place.span, gold[each.question.id]) for place in each.matches)
        counts["right" if correct else "wrong"] += 1
        wrong[each.matches[0].match_type] += not correct
    for left in found.unanchored:
        counts[left.no_match.status] += 1
        if left.no_match.status is NoMatchReason.AMBIGUOUS:
            counts["among"] += any(right(place.span, gold[left.question.id]) for place in left.no_match.candidates)
    share = {key: f"{100 * counts[key] / len(examples):5.1f} %" for key in (*NoMatchReason, "right", "wrong")}
    among = (
        f"{100 * counts['among'] / counts[NoMatchReason.AMBIGUOUS]:.0f} %" if counts[NoMatchReason.AMBIGUOUS] else "-"
    )
    print(
        f"{name:20} {len(examples):5} questions: right {share['right']}, wrong {share['wrong']}, ambiguous"
        f" {share[NoMatchReason.AMBIGUOUS]} (gold among the candidates: {among}),"
        f" not found {share[NoMatchReason.NOT_FOUND]}, repeated {share[NoMatchReason.REPEATED]};"
        f" {found.match_counts}, wrong of them {dict(+wrong)}; {seconds:.1f} s"
    )


@dataclass
class Edited:
    """A text, and for each of its characters where it stood, or -1 for one that is new."""

    text: str
    origin: list[int]

    def replace(self, start: int, end: int, new: str) -> None:
        """Put ``new`` in the place of ``[start, end)``."""
        self.text = self.text[:start] + new + self.text[end:]
        self.origin[start:end] = [-1] * len(new)

    def move(self, start: int, end: int, to: int) -> None:
        """Put ``[start, end)`` in front of ``to``, which lies outside."""
        text, origin = self.text[start:end], self.origin[start:end]
        self.replace(start, end, "")
        to -= end - start if to >= end else 0
        self.replace(to, to, text)
        self.origin[to : to + len(text)] = origin


FOREIGN = (
    "nobody",
    "had",
    "expected",
    "that",
    "this",
    "remark",
    "was",
    "added",
    "long",
    "after",
    "others",
    "were",
    "read",
)


def edit(edited: Edited, draw: random.Random) -> str:
    """Change a text at one place; says what was done."""
    found = sentences(edited.text)
    start, end = draw.choice(found[1:] or found)
    what = draw.choice(("inserted", "deleted", "words", "words", "moved"))
    headings = [b.start for b in parse_blocks(edited.text) if b.kind is BlockType.HEADING] + [len(edited.text)]
    if what == "inserted":
        words = draw.sample(FOREIGN, draw.randint(5, len(FOREIGN)))
        edited.replace(end, end, f" {' '.join(words).capitalize()}.")
    elif what == "deleted":
        edited.replace(start, end, "")
    elif what == "words":
        places = [word.span() for word in re.finditer(r"\w+", edited.text[start:end])]
        for a, b in sorted(draw.sample(places, min(len(places), draw.randint(1, 2))), reverse=True):
            edited.replace(start + a, start + b, draw.choice(FOREIGN))
    elif len(headings) > 3:
        at = draw.randrange(1, len(headings) - 1)
        edited.move(headings[at], headings[at + 1], draw.choice([h for h in headings[1:] if h != headings[at]]))
    else:
        paragraphs = [found.span() for found in re.finditer(r"(?:[^\n]+\n)+", edited.text)]
        (a, b), (to, _) = draw.choice(paragraphs), draw.choice(paragraphs)
        if not a <= to <= b:
            edited.move(a, b, to)
    return what


def repair(name: str, places: int, per_document: bool, seeds: int) -> None:
    """Edit the documents of a data set and repair its evidence, each time anew; print what is found, wrong and left."""
    data = data_set(name)
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    hows: Counter[str] = Counter()
    started = time.perf_counter()
    for seed in range(seeds):
        edit_and_repair(data, places, per_document, random.Random(f"{name} {seed}"), counts, kinds, hows)
    how = f"{places} places in each document" if per_document else f"{places} places"
    print(
        f"{name:20} edited at {how}, {seeds} seeds ({dict(kinds)}): of {counts['exist']} spans that still exist"
        f" {100 * counts['found'] / counts['exist']:.1f} % found ({counts['found touched']} of {counts['touched']} that"
        f" moved or changed), in part {counts['partly']}, wrong {counts['wrong']}, ambiguous"
        f" {counts[NoMatchReason.AMBIGUOUS]}, not found {counts[NoMatchReason.NOT_FOUND]}; {dict(hows)};"
        f" {time.perf_counter() - started:.1f} s"
    )


def edit_and_repair(
    data: Dataset,
    places: int,
    per_document: bool,
    draw: random.Random,
    counts: Counter[str],
    kinds: Counter[str],
    hows: Counter[str],
) -> None:
    """Count what repair finds after one round of edits."""
    stood = {
        OldEvidence(span, by_id[span.doc].text[span.start : span.end])
        for by_id in [{document.id: document for document in data.documents}]
        for example in data.examples
        for span in example.evidence
    }
    now = {d.id: Edited(d.text, list(range(len(d.text)))) for d in data.documents}
    gold = sorted({piece.span.doc for piece in stood})
    targets = [doc for doc in gold for _ in range(max(1, min(places, len(sentences(now[doc].text)) // 4)))]
    kinds += Counter(edit(now[doc], draw) for doc in (targets if per_document else draw.choices(gold, k=places)))
    documents = [replace(document, text=now[document.id].text) for document in data.documents]
    found = EvidenceRepair(documents).repair(stood)
    hows += Counter(count_match_types(found.values()))
    for piece, outcome in found.items():
        kept = [at for at, old in enumerate(now[piece.span.doc].origin) if piece.span.start <= old < piece.span.end]
        exists = 2 * len(kept) >= piece.span.end - piece.span.start
        touched = now[piece.span.doc].text[piece.span.start : piece.span.end] != piece.text
        counts["exist"] += exists
        counts["touched"] += touched and exists
        if isinstance(outcome, RepairedEvidence):
            spans = [place.span for place in outcome.matches]
            held = sum(any(s.doc == piece.span.doc and s.start <= at < s.end for s in spans) for at in kept)
            hull = sum(s.end - s.start for s in spans)
            good = bool(kept) and 5 * held >= 4 * len(kept) and 2 * held >= hull
            counts["found"] += good and exists
            counts["found touched"] += good and exists and touched
            some = bool(kept) and 2 * held >= hull
            counts["partly"] += exists and some and not good
            counts["wrong"] += not some
            if not good and GIVEN.wrong:
                print(piece, spans, [now[s.doc].text[s.start : s.end] for s in spans])
        elif exists:
            counts[outcome.status] += 1
            if GIVEN.wrong:
                print("left", piece.text[:150], outcome.reason)


def learn() -> None:
    """Print the numbers that answers are found with."""
    known = []
    for name in (*BUNDLED, *PUBLISHED):
        data = data_set(name)
        examples, _ = divided(name, data)
        answers = AnswerFinder(data.documents) if examples else None
        for example in examples if answers else ():
            ranked = answers.rank_parts(example.question, example.answer)
            spans = [answers.span(at) for at in ranked.positions.tolist()]
            known.append((answers, ranked, np.array([right(s, example.evidence) for s in spans]), 1 / len(examples)))
    weights = ranking([(ranked.features, correct, weight) for _, ranked, correct, weight in known])
    print("FEATURE_WEIGHTS =", weights[:-1].round(2).tolist(), " NO_MATCH_SCORE =", weights[-1].round(2))
    signs, outcomes, counted = [], [], []
    for answers, ranked, correct, weight in known:
        shares, _ = predict_probabilities(ranked.features, weights[:-1].round(2), float(weights[-1].round(2)))
        signs.append(answers.confidence_features(ranked, shares))
        outcomes.append(float(correct[int(np.argmax(shares))]))
        counted.append(weight)
    print("CONFIDENCE_WEIGHTS =", logistic(np.array(signs), np.array(outcomes), np.array(counted)).round(2).tolist())


def ranking(known: list[tuple[np.ndarray, np.ndarray, float]], steps: int = 800, ridge: float = 2e-3) -> np.ndarray:
    """Weights of the features, and of nowhere, under which the gold is likeliest (Adam, Kingma and Ba 2015)."""
    weights = np.zeros(len(FEATURES) + 1)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, steps + 1):
        slope = ridge * weights
        for features, correct, weight in known:
            shares, nowhere = predict_probabilities(features, weights[:-1], weights[-1])
            everything = np.append(shares, nowhere)
            gold = everything * np.append(correct, not correct.any())
            change = weight * (everything - gold / (gold.sum() + 1e-12))
            slope[:-1] += features.T @ change[:-1]
            slope[-1] += change[-1]
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        weights = weights - 0.1 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return weights


def logistic(signs: np.ndarray, outcomes: np.ndarray, counted: np.ndarray, ridge: float = 0.02) -> np.ndarray:
    """A logistic regression by Newton's method."""
    weights = np.zeros(signs.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-signs @ weights))
        curve = (signs * (counted * chance * (1 - chance))[:, None]).T @ signs + ridge * np.eye(len(weights))
        weights -= np.linalg.solve(curve, signs.T @ (counted * (chance - outcomes)) + ridge * weights)
    return weights


if __name__ == "__main__":
    if GIVEN.learn:
        learn()
    else:
        for each in (*PUBLISHED, *BUNDLED) if not GIVEN.repair else ():
            judge(each)
        for per_document in (False, True):
            for each in PUBLISHED:
                repair(each, 20, per_document, 1 if per_document else 5)
