"""How the embedded judge ranks answers whose order is known: gold, evidence word for word, paraphrases, wrong copies.

    python benchmarks/bench_judge.py [search | test]

Wrong copies are made by rules that know nothing of how the judge reads: one number of the reference is changed, or one
auxiliary verb is negated (or a negated one is not). The first possible place counts; "every" takes the best marked of
all places. Paraphrases are in judge_paraphrases.yaml. Constants were set on the search questions.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from ragsmith.datasets.dataset import Dataset, Example, load_dataset
from ragsmith.evaluation.testbed import Setup
from ragsmith.measures.agreement import agreement

PARAPHRASES: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("judge_paraphrases.yaml").read_text())

# --- wrong copies ----------------------------------------------------------------------------------------------------

_NAMES = "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty"
_WRITTEN = _NAMES.split()
_NUMBER = re.compile(rf"(?<![\w.,-])(?:\d[\d,]*(?:\.\d+)?(?![\w-])|(?:{'|'.join(_WRITTEN)})\b(?!-))", re.IGNORECASE)
_AUXILIARY = re.compile(
    r"\b(cannot|(?:is|are|was|were|has|have|had|can|could|may|might|must|should|shall|will|would|does|do|did)\b( not)?)"
)


def _other_number(number: str) -> str:
    if number.lower() in _WRITTEN:
        return _WRITTEN[(_WRITTEN.index(number.lower()) + 2) % len(_WRITTEN)]
    whole, dot, decimals = number.partition(".")
    value = int(whole.replace(",", ""))
    changed = value + max(1, value // 4)
    return (f"{changed:,}" if "," in whole else str(changed)) + dot + decimals


def wrong_numbers(text: str) -> Iterator[str]:
    """Copies of ``text`` with one number changed."""
    for match in _NUMBER.finditer(text):
        yield text[: match.start()] + _other_number(match[0]) + text[match.end() :]


def negated(text: str) -> Iterator[str]:
    """Copies of ``text`` with one auxiliary verb negated, or no longer."""
    for match in _AUXILIARY.finditer(text):
        verb = "can" if match[1] == "cannot" else match[1][: -len(" not")] if match[2] else f"{match[1]} not"
        yield text[: match.start()] + verb + text[match.end() :]


# --- the table -------------------------------------------------------------------------------------------------------

KINDS = ("gold", "evidence", "paraphrase")
COPIES: dict[str, Callable[[str], Iterator[str]]] = {"wrong number": wrong_numbers, "negated": negated}


def main() -> None:
    part = sys.argv[1] if len(sys.argv) > 1 else "search"
    for name in ("law", "workshop"):
        report(load_dataset(name), part)


def report(dataset: Dataset, part: str) -> None:
    """Print mean marks, and how often what is right stands above what is wrong."""
    model = Setup(dataset).loaded_models.language_model
    texts = {document.id: document.text for document in dataset.documents}
    examples = [example for example in dataset.examples if example.split == part and example.evidence]
    marks: dict[str, list[float]] = {}
    above: dict[tuple[str, str], list[bool]] = {}
    both: list[bool] = []
    lost: list[str] = []
    seconds, calls = 0.0, 0

    for position, example in enumerate(examples):

        def mark(answer: str, example: Example = example) -> float:
            nonlocal seconds, calls
            started = time.process_time()
            value = agreement(model, example.question, example.answer, answer)
            seconds, calls = seconds + time.process_time() - started, calls + 1
            return value

        evidence = "\n".join(texts[span.doc][span.start : span.end] for span in example.evidence)
        right = {"gold": [example.answer], "evidence": [evidence], "paraphrase": PARAPHRASES.get(example.id, [])}
        given = {kind: [mark(answer) for answer in answers] for kind, answers in right.items()}
        wrong = {kind: [mark(copy) for copy in copies(example.answer)] for kind, copies in COPIES.items()}
        other = {"the question": [mark(example.question)], "another answer": [mark(examples[position - 1].answer)]}
        for kind, values in (given | {kind: found[:1] for kind, found in wrong.items()} | other).items():
            marks.setdefault(kind, []).extend(values)
        for kind, values in given.items():
            for copy, found in wrong.items():
                if found:
                    above.setdefault((kind, copy), []).extend(value > found[0] for value in values)
                    above.setdefault((kind, f"every {copy}"), []).extend(value > max(found) for value in values)
        if first := [found[0] for found in wrong.values() if found]:
            both += [value > max(first) for value in given["paraphrase"]]
            for kind in ("evidence", "paraphrase"):
                lost.extend(f"{kind} of {example.id}" for value in given[kind] if value <= max(first))

    print(f"\n{dataset.name}, {len(examples)} {part} questions; {1e6 * seconds / calls:.0f} microseconds of CPU a mark")
    for kind, values in marks.items():
        print(f"  mean mark of {kind:<16} {statistics.fmean(values):.3f}  ({len(values)})")
    for (kind, copy), wins in sorted(above.items(), key=lambda item: (KINDS.index(item[0][0]), len(item[0][1]))):
        print(f"  {kind:<10} above {copy:<20} {sum(wins):>3} of {len(wins)}")
    print(f"  paraphrase above both copies      {sum(both):>3} of {len(both)}")
    print(f"  not above both: {', '.join(lost) or 'none'}")


if __name__ == "__main__":
    main()
