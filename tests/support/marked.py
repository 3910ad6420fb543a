"""A run on a made-up data set whose test answers can be marked: ten documents, two questions about each."""

from __future__ import annotations

from dataclasses import replace

from toy import candidate, describe_run, result

from ragsmith.comparison.questions import Clusters
from ragsmith.datasets.dataset import make_dataset
from ragsmith.pipelines.genes import configuration
from ragsmith.records.record import DatasetRecord, Division
from ragsmith.store.store import EvaluationRow, ResultRow, Store
from ragsmith.types import Dataset, Document, Example, Span

WINNER, NAIVE = "key of the winner", "key of naive RAG"


def markable_dataset(name: str = "yard") -> Dataset:
    texts = {
        f"d{at}": f"# Gate {at}\n\nGate {at} opens at {at} in the morning. It closes at noon, as does the {name}."
        for at in range(10)
    }
    examples = [
        Example(f"q{at}{of}", asked.format(at), answer.format(at), "factual", (Span(f"d{at}", 10, 30),), "test")
        for at in range(10)
        for of, (asked, answer) in enumerate(
            (("When does gate {} open?", "At {}."), ("When does gate {} close?", "At noon."))
        )
    ]
    documents = [Document(id_, f"Gate {id_}", text) for id_, text in texts.items()]
    return make_dataset({"name": name, "title": "The <b>yard</b>"}, documents, examples)


def put_markable(store: Store, dataset: Dataset, run: str = "run of the yard", *, judged: bool = True) -> None:
    """The winner and naive RAG give the same answer to every fourth question."""
    questions = [example.id for example in dataset.examples]
    texts = {example.id: example.question for example in dataset.examples}
    references = {example.id: example.answer for example in dataset.examples}
    about = DatasetRecord(
        dataset.title, "Made up.", 10, 10, dict.fromkeys(questions, "factual"), asked=texts, references=references
    )
    store.put_dataset(dataset.digest, dataset.name, about.to_dict())
    for key, retrieval in ((WINNER, "hybrid"), (NAIVE, "vector")):
        pipeline = {"pipeline": configuration(candidate(retrieval=retrieval))}
        store.put_evaluations([EvaluationRow(key, dataset.digest, pipeline)])
        rows = []
        for at, question in enumerate(questions):
            said = f"both {at}" if at % 4 == 0 else f"{retrieval} {at}"
            value = result(0.5, (at % 5) / 4, said=said, stages={"query_expansion": retrieval})
            if not judged:
                value["measures"]["judge"] = None
            rows.append(ResultRow(key, question, "ok", value))
        store.put_results(rows)
    groups = Clusters.from_examples(dataset, dataset.examples)
    record = replace(
        describe_run(True),
        split=Division("given", (), tuple(questions), groups=groups),
        winner=WINNER,
        baselines={"naive": NAIVE},
        test={"winner": WINNER, "naive": NAIVE},
    )
    store.put_run(run, dataset.digest, record.to_dict(), started="2026-01-01T10:00:00+00:00")
    store.update_run(run, "finished", record.to_dict(), finished="2026-01-01T10:00:30+00:00")
