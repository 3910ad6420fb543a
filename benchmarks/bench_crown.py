"""Who wins when prompts are refused for ever: the clean winner, one not shown worse than it, or nobody.

    python benchmarks/bench_crown.py [CACHE]     # of a search on law; without one, a quick search is made first
    python benchmarks/bench_crown.py --served    # ten searches against a server that refuses 2, 5 and 10 % of prompts

The first form takes the stored results of a search and knocks out what refused prompts would: a prompt that several
pipelines share fails for all of them. It does so for six pipelines from the best to the worst, and for all at once.
Then it lets every pipeline fail on its own weakest questions, as many as it may, and looks whether that lifts it.
"""

import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import ragsmith
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import LEVEL, Terms, common, ranked
from ragsmith.evaluation.statistics import sign_flip
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.runs.choice import choose
from ragsmith.store.store import opened
from ragsmith.techniques.asked import tasks
from ragsmith.techniques.families import FAMILIES

RATES = (0.02, 0.05, 0.10)
DRAWS = 200
FITNESS = Fitness()
FAILURE = {"stage": "generation.answer", "kind": "refused content", "error": "RefusedContent: HTTP 400"}

SIX = """\
families:
  pre_embedding: [none]
  query_expansion: [none, hyde]
  retrieval: [bm25, vector, hybrid]
  reranking: [none]
  passage_filter: [top_k: {k: [3]}]
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
"""


def prompts(evaluation: Evaluation, question: str) -> Iterator[str]:
    """What a pipeline asks a language model on a question: equal texts are one prompt."""
    record = evaluation.records[question]
    read = question
    for gene, family in zip(evaluation.candidate, FAMILIES, strict=True):
        if family.tier == "question" and tasks(gene.technique):
            yield json.dumps([question, family.name, str(gene), read])
        read = str(record["stages"].get(family.name, read))
    yield json.dumps([question, "answer", record["stages"]["prompt_maker"]])
    yield json.dumps([question, "judge", record["answer"]])


def refused(prompt: str, rate: float, draw: int) -> bool:
    drawn = hashlib.blake2b(f"{draw} {prompt}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") < rate * 2**64


def without(evaluation: Evaluation, lost: Sequence[str]) -> Evaluation:
    records = {q: record for q, record in evaluation.records.items() if q not in lost}
    return replace(evaluation, records=records, failures=dict.fromkeys(lost, FAILURE))


def knocked_out(evaluation: Evaluation, rate: float, draw: int) -> Evaluation:
    asked = asks[evaluation.key]
    lost = [q for q in evaluation.questions if any(refused(prompt, rate, draw) for prompt in asked[q])]
    return without(evaluation, lost)


asks: dict[str, dict[str, list[str]]] = {}


def outcome(winner: Evaluation | None, clean: Evaluation) -> str:
    """How a draw ended; ``clean`` is the winner of the clean run as this draw left it."""
    if winner is None:
        return "no winner"
    if winner.key == clean.key:
        return "the clean winner"
    both = common([winner, clean])
    ours, theirs = winner.by_question(FITNESS), clean.by_question(FITNESS)
    differences = [[ours[q] for q in both], [theirs[q] for q in both]]
    worse = bool(both) and fmean(differences[0]) < fmean(differences[1]) and sign_flip(*differences) <= LEVEL
    return "ANOTHER" if worse else "one not shown worse"


def replay(pipelines: Sequence[Evaluation], name: str) -> None:
    first = ranked(pipelines, Terms.of(pipelines, FITNESS))[0]
    print(f"{name}: fitness {first.mean('fitness'):.3f} to {min(e.mean('fitness') or 0 for e in pipelines):.3f}")
    for rate in RATES:
        counts: Counter[str] = Counter()
        failed, incomplete = [], []
        for draw in range(DRAWS):
            unlucky = [knocked_out(evaluation, rate, draw) for evaluation in pipelines]
            terms = Terms.of(unlucky, FITNESS)
            choice, _ = choose(unlucky, terms)
            counts[outcome(choice and choice.chosen, next(e for e in unlucky if e.key == first.key))] += 1
            failed.append(fmean(len(e.failures) / len(e.questions) for e in unlucky))
            incomplete.append(fmean(not terms.admit(e) for e in unlucky))
        said = ", ".join(f"{counts[kind]} {kind}" for kind in ("the clean winner", "one not shown worse", "no winner"))
        print(
            f"  {rate:4.0%} of prompts refused ({fmean(failed):.0%} of answers fail, {fmean(incomplete):.0%} of "
            f"pipelines incomplete), {DRAWS} draws: {said}, {counts['ANOTHER']} another"
        )


def aimed(pipelines: Sequence[Evaluation], name: str) -> None:
    before = [e.key for e in ranked(pipelines, Terms.of(pipelines, FITNESS))]
    lifted = crowned = tried = 0
    for victim in before[1:]:
        evaluation = next(e for e in pipelines if e.key == victim)
        known = evaluation.by_question(FITNESS)
        weakest = sorted(known, key=lambda q: known[q])
        for n in range(1, int(0.1 * len(weakest)) + 1):
            changed = [without(e, weakest[:n]) if e.key == victim else e for e in pipelines]
            terms = Terms.of(changed, FITNESS)
            after = [e.key for e in ranked(changed, terms)]
            choice, _ = choose(changed, terms)
            tried += 1
            lifted += bool(set(before[: before.index(victim)]) - set(after[: after.index(victim)]))
            crowned += choice is not None and choice.chosen.key == victim
    print(f"{name}: {tried} times a pipeline failed on its weakest questions: {lifted} times lifted, {crowned} crowned")


def stored(cache: Path) -> list[Evaluation]:
    with opened(cache, read_only=True) as store:
        about = choose_run(store, "law")
        material = RunData(store, about, {})
        found = material.all_on_search([proposal.evaluation for proposal in material.proposals])
    distinct = {e.phenotype: e for e in found if e.complete}
    return list(distinct.values())


def from_store(cache: Path) -> None:
    pipelines = stored(cache)
    asks.update({e.key: {q: list(prompts(e, q)) for q in e.questions} for e in pipelines})
    order = ranked(pipelines, Terms.of(pipelines, FITNESS))
    six = [order[round(place * (len(order) - 1) / 5)] for place in range(6)]
    replay(six, "six pipelines from the best to the worst")
    replay(pipelines, f"all {len(pipelines)} pipelines of the search")
    aimed(six, "six pipelines")
    aimed(pipelines, f"all {len(pipelines)} pipelines")


def served() -> None:
    """Ten searches over six pipelines against a server that refuses prompts for ever."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/support"))
    from fault_kinds import Fault  # noqa: PLC0415
    from fault_server import Request  # noqa: PLC0415
    from served import Ruled  # noqa: PLC0415

    def searched(folder: Path, rate: float, draw: int) -> ragsmith.Result:
        def rule(request: Request) -> Fault | None:
            text = json.dumps(request.body["messages"], sort_keys=True)
            return Fault(status=400, said="content_filter") if refused(text, rate, draw) else None

        (folder / "six.yaml").write_text(SIX)
        with Ruled(rule) as server:
            return ragsmith.search(
                "law",
                space=folder / "six.yaml",
                strategy="exhaustive",
                probes=False,
                models={"language_model": "openai:tiny"},
                base_url=server.url,
                cache=folder / f"{rate} {draw}.sqlite",
                reports=folder / f"{rate} {draw}",
            )

    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clean = searched(folder, 0.0, 0).ranking[0]
        for draw in range(10):
            rate = RATES[draw % 3]
            found = searched(folder, rate, draw)
            kept = found._run[1]
            first = kept.on_search(clean.key)
            assert first is not None
            won = None if found.no_winner else kept.on_search(found.ranking[0].key)
            kind = outcome(won, first)
            counts[kind] += 1
            report = (folder / f"{rate} {draw}" / "law" / "report.md").is_file()
            print(f"{rate:4.0%} of prompts refused: {kind}; {found.domain.failed} answers failed; report: {report}")
    print(", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts)), f"; {counts['ANOTHER']} another")


def main() -> None:
    if sys.argv[1:] == ["--served"]:
        served()
    elif sys.argv[1:]:
        from_store(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            ragsmith.search("law", space="quick", preset="quick", cache=Path(folder) / "cache.sqlite")
            from_store(Path(folder) / "cache.sqlite")


if __name__ == "__main__":
    main()
