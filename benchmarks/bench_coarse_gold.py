"""What a ranking scores where gold is whole conversations, by the size of chunks: counted by chunks, and by units.

The conversations are made up here: a customer and a technician talk about one fault of one machine, with small talk
that all conversations share. A question is about one fault, and its gold is the whole conversation.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.relevance import Relevance
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Record
from ragsmith.evaluation.fitness import Fitness, composite
from ragsmith.evaluation.scoring import scored
from ragsmith.evaluation.testbed import Setup
from ragsmith.measures.case import Case
from ragsmith.measures.registry import measures
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Dataset, Document, Example, Gold, Question, Span

SIZES = (300, 600, 900, 1500)

MACHINES = ("bread slicer", "label printer", "ice crusher", "paper folder", "wood chipper", "soap press", "seed drill")
FAULTS = {
    "overheating bearing": "The bearing was packed with too much grease, and taking a third of it out cooled it down.",
    "torn drive belt": "A belt of the wrong profile had been fitted, and the grooved one has held since.",
    "leaking gearbox": "The breather plug was blocked by paint, so pressure pushed the oil out; it was drilled free.",
    "stuttering feed": "The feed roller had worn smooth, and a rubber sleeve over it gave the grip back.",
    "blinking error lamp": "The lamp meant a cold start below five degrees, and a heater in the cabinet ended that.",
    "shrieking fan": "A leaf had been drawn into the fan wheel, and the grille now has a finer mesh.",
    "drifting zero point": "The sensor was screwed to a plate that bends; it sits on the frame now.",
    "jammed outlet": "The chute had been mounted upside down after cleaning, so its narrow end came first.",
}
ASIDES = (
    "It has been raining here since Monday, and the yard is one puddle.",
    "My colleague is on leave, so I am alone in the hall this week.",
    "Please hold on, somebody is at the door with a delivery.",
    "I have written the number of the order on a slip, and now I cannot find it.",
    "We close at four today because of the stocktaking.",
    "Could you speak a little louder, the compressor is running beside me.",
    "The coffee machine was repaired by you last year, and it still works.",
    "I will put you through to the office for the invoice afterwards.",
    "That is what the last technician said as well, if I remember it right.",
    "Let me write that down before I forget it.",
)
TOWNS = ("Aldermoor", "Brackwater", "Cindermouth", "Dunsall", "Eskerby", "Fallowick", "Gorsley", "Hethering")
ABOUT_THE_TOWN = (
    "Here in {town} the power is weak in the evening.",
    "You can reach {town} by the coast road only, I am afraid.",
    "Our branch in {town} has the same one.",
)
TALK = (
    "The {fault} of our {machine} is back, it began again this morning.",
    "When did you first notice the {fault} on the {machine}?",
    "About a week ago. The {machine} ran for an hour, then came the {fault}.",
    "Did the {fault} come at once, or only when the {machine} was warm?",
    "I stopped the {machine} each time I met the {fault}, to be on the safe side.",
    "Then let us look at the {fault} step by step. Is the {machine} switched off?",
    "Yes, the {machine} is off. Nobody has touched anything because of the {fault}.",
    "On a {machine} of that year the {fault} mostly has one of two causes.",
)


def conversations(seed: int = 0) -> Dataset:
    """A data set of one conversation for each fault of each machine: 2,000 to 10,000 characters, a question each."""
    rng = Random(seed)
    documents, examples = [], []
    for machine in MACHINES:
        for fault, cure in FAULTS.items():
            name = f"{machine} {fault}".replace(" ", "-")
            turns: list[str] = []
            wanted = rng.randint(2_000, 10_000)
            town = rng.choice(TOWNS)
            while sum(map(len, turns)) < wanted:
                said = rng.choice(TALK).format(fault=fault, machine="machine" if rng.random() < 0.7 else machine)
                more = rng.sample(ASIDES, rng.randint(0, 3))
                more += [rng.choice(ABOUT_THE_TOWN).format(town=town)] if rng.random() < 0.15 else []
                turns.append(" ".join([said, *more]))
            turns.insert(rng.randrange(len(turns)), cure)
            who = ("Customer", "Technician")
            text = "\n\n".join(f"{who[number % 2]}: {turn}" for number, turn in enumerate(turns)) + "\n"
            documents.append(Document(name, f"Call {len(documents) + 1}", text))
            asked = f"A {machine} in {town} had the {fault}. What was the reason?"
            examples.append(Example(name, asked, cure, "calls", (Span(name, 0, len(text)),)))
    return make_dataset({"name": "calls"}, documents, examples)


def by_chunks(record: Record, case: Case) -> float:
    """R as it was: chunks count by themselves; those that cover half of the gold are relevant, if any does."""
    grades = case.relevance.grades
    if not case.relevance.partial:
        grades = {chunk: grade for chunk, grade in grades.items() if grade >= 0.5}
    relevance: Relevance = replace(case.relevance, grades=grades, coarse={})
    each = replace(case, relevance=relevance)
    found = {name: measures()[name](each, {}) for name in ("recall", "map", "ndcg", "mrr")}
    value = composite("retrieval", {**record["measures"], **found})
    assert value is not None
    return value


def evaluated(dataset: Dataset, candidate: Candidate, size: int) -> tuple[float, float, float]:
    """R by chunks, and R and fitness as they are, of a pipeline at one size of chunks."""
    setup = Setup(dataset, chunk_size=size)
    engine = setup.engine()
    rows = []
    for example in dataset.examples:
        relevance = setup.relevance[example.id]
        trace = engine.answer(candidate, Question(example.question), Gold(relevance.relevant))
        record = scored(engine, setup, trace, example)
        case = Case(evidence=example.evidence, relevance=relevance, hits=trace.hits)
        value = composite("retrieval", record["measures"])
        assert value is not None
        rows.append((by_chunks(record, case), value, Fitness()(record["measures"])))
    before, now, fitness = (fmean(column) for column in zip(*rows, strict=True))
    return before, now, fitness


def pipelines() -> dict[str, Candidate]:
    """Naive RAG, BM25, and both together."""
    place = next(i for i, family in enumerate(FAMILIES) if family.name == "retrieval")
    plain = baseline("naive")
    hybrid = (*plain[:place], make_gene("retrieval", "hybrid"), *plain[place + 1 :])
    return {"naive RAG": plain, "BM25": baseline("bm25"), "hybrid": hybrid}


def main() -> None:
    load_techniques()
    dataset = conversations()
    lengths = sorted(len(document.text) for document in dataset.documents)
    sizes = f"{lengths[0]:,} to {lengths[-1]:,} characters"
    print(f"{len(lengths)} conversations of {sizes}; the gold of each question is one of them, whole")
    print(f"{'':<12}{'':<14}" + "".join(f"{size:>8}" for size in SIZES) + "   spread")
    for name, candidate in pipelines().items():
        columns = zip(*(evaluated(dataset, candidate, size) for size in SIZES), strict=True)
        for what, values in zip(("R by chunks", "R", "fitness"), columns, strict=True):
            spread = max(values) - min(values)
            print(f"{name:<12}{what:<14}" + "".join(f"{value:8.3f}" for value in values) + f"{spread:9.3f}")


if __name__ == "__main__":
    main()
