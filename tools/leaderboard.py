"""The leaderboard, docs/leaderboard.md: what a default search finds on each bundled domain, beside what it has to beat.

python tools/leaderboard.py                             search every bundled domain, and write the page
python tools/leaderboard.py --dataset law               search a domain again, once the page has all of them
python tools/leaderboard.py --page                      write the page again from docs/leaderboard.json
python tools/leaderboard.py --llm openai:NAME --base-url URL --prices .4/1.6                 say what it would cost
python tools/leaderboard.py --llm openai:NAME --base-url URL --prices .4/1.6 --max-cost 10   say so, and ask it

What was found is kept in docs/leaderboard.json, a section for the embedded models and one for each chat model, so that
rows are added and none is lost. A chat model is named as in `ragsmith search`: --llm, or a file with --models;
--base-url and --prices go with it, the latter as INPUT/OUTPUT for a million tokens of the --llm or as a file. It is
asked only within --max-calls or --max-cost, which bound all data sets together, whatever the number of commands; its
section has the data sets that are done. Searches go on where they stopped, from what --cache holds, and pay for nothing
twice, after a kill, too. They count looks at test questions in a ledger beside the cache, as of somebody who never
looked before.

To try it: --dataset NAME (several times), --max-evaluations N, --preset quick, and --output FILE for another page; the
published one takes only what default searches of all bundled domains found, when all of them ended.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this checkout is described, not a package that happens to be installed

import ragsmith
from ragsmith.api.result import Result
from ragsmith.comparison.difference import cluster_interval
from ragsmith.comparison.questions import Clusters
from ragsmith.datasets.bundled import bundled_domains
from ragsmith.diagnosis.estimates import pool_estimates
from ragsmith.errors import RagsmithError, UsageError
from ragsmith.evaluation.statistics import Verdict
from ragsmith.gateway.budget import Limits
from ragsmith.models.file import read_models
from ragsmith.models.names import ModelNames
from ragsmith.text import numbers
from ragsmith.text.redaction import redacted
from ragsmith.text.writing import write_file

PAGE = ROOT / "docs" / "leaderboard.md"
EMBEDDED = "the embedded models"
PRESET = "default"

PIPELINES: Mapping[str, str] = {
    "naive": "naive RAG",
    "bm25": "BM25",
    "recommended": "recommended pipeline",
    "single": "best single option",
    "winner": "winner of a default search",
}
"""The rows, as they are called in a run and on the page."""

RIVALS = tuple(name for name in PIPELINES if name != "winner")

Section = dict[str, Any]


# --- from searches to numbers -----------------------------------------------------------------------------------------


def section(results: Mapping[str, Result], models: str) -> Section:
    """What searches found with ``models``, by data set: scores on test questions, and differences."""
    return _section(models, {name: _of(result) for name, result in results.items()})


def _section(models: str, found: Mapping[str, Mapping[str, Any]]) -> Section:
    return {
        "models": models,
        "version": ragsmith.__version__,
        "domains": dict(found),
        "pooled": {name: its for name in RIVALS if (its := _pooled(name, found))},
    }


def _of(result: Result) -> dict[str, Any]:
    domain, dataset = result.run_report, result.setup.dataset
    tested = set(domain.about.record.tested)
    clusters = Clusters.from_examples(dataset, [example for example in dataset.examples if example.id in tested])
    pipelines = {}
    for name in PIPELINES:
        rows = [one for one in domain.answered if one.pipeline == name and one.split == "test" and one.state == "ok"]
        row = next((finalist.test for finalist in domain.finalists if finalist.name == name), None)
        if not rows or row is None:
            continue
        values = [one.measures["fitness"] for one in rows]
        low, high = cluster_interval(values, clusters.group_numbers([one.question for one in rows]))
        pipelines[name] = {
            "pipeline": row.label or "naive RAG",
            "fitness": _short(sum(values) / len(values)),
            "interval": [_short(low), _short(high)],
            "calls": round(row.usage["calls"], 2),
            "questions": len(values),
        }
    return {
        "title": dataset.title,
        "digest": dataset.digest,
        "space": domain.about.record.space.name,
        "questions": len(tested),
        "groups": len(clusters.groups),
        "pipelines": pipelines,
        "differences": {name: its for name in RIVALS if (its := _difference(result, name))},
    }


def _difference(result: Result, name: str) -> dict[str, Any] | None:
    """The winner less a rival on the test questions; what is the same pipeline is level with it."""
    domain = result.run_report
    same = domain.same.get(name, name)
    if same == "winner":
        return {"mean": 0.0, "error": 0.0, "same": True}
    one = next((one for one in domain.comparisons if one.name in (name, same)), None)
    if one is None or one.difference is None:
        return None
    its = one.difference
    return {
        "mean": _short(its.mean_difference),
        "interval": [_short(its.low), _short(its.high)],
        "error": _short(its.corrected_error[0]),
        "shown": one.verdict in (Verdict.BETTER, Verdict.WORSE),
    }


def _pooled(name: str, found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    each = [one["differences"][name] for one in found.values() if name in one["differences"]]
    its = pool_estimates([one["mean"] for one in each], [one["error"] for one in each])
    if its is None:
        return None
    bounds = [_short(its.low), _short(its.high)]
    return {"mean": _short(its.mean), "interval": bounds, "agree": its.agree, "domains": its.datasets}


def _short(value: float) -> float:
    """Six digits, so that the file does not depend on how a machine adds."""
    return round(value, 6) + 0.0


# --- from numbers to the page -----------------------------------------------------------------------------------------

ABOUT = """
What one default search (`ragsmith search --dataset all`) finds on each bundled domain, beside what it has to beat, on
the **test questions**, which chose no pipeline. `python tools/leaderboard.py` searches and writes this page; the
numbers are in [leaderboard.json](leaderboard.json). F is the paper's fitness, the mean of R (Recall@5, mAP, nDCG@5,
MRR) and G (judge, similarity). Intervals hold 95 % and are by groups of questions whose gold lies together. *Naive RAG*
and *BM25* need no search; the *recommended pipeline* is named by what was learned on other data sets, without a
question; the *best single option* is naive RAG with the one option that was best on the search questions.
""".strip()

DIFFERENCES = """
The winner less each rival, question by question. A star says that the verdict of the search calls it shown. *Pooled*
takes each domain as a draw of what there could be (random effects, Hartung and Knapp), with how many have its sign.
""".strip()

EMPTY = """
Nobody has run this with a chat model yet. This says what it costs by your prices for a million tokens, input/output,
asks within `--max-cost`, goes on where it was stopped, and fills the rows (without `--max-cost` it only says):
""".strip()

COMMAND = "python tools/leaderboard.py --llm openai:NAME --base-url URL --prices .4/1.6 --max-cost 10"


def page(sections: Sequence[Section], expected: Sequence[str]) -> str:
    """The page of what was found; ``expected`` names the domains that an empty table has."""
    parts = ["# Leaderboard", ABOUT]
    own = [one for one in sections if one["models"] == EMBEDDED]
    chat = [one for one in sections if one["models"] != EMBEDDED]
    for one in own or [{"models": EMBEDDED, "domains": {}, "pooled": {}}]:
        parts += ["## With the embedded models", *_tables(one, expected)]
    for one in chat:
        parts += [f"## With {one['models']}", *_tables(one, expected)]
    if not chat:
        nothing: Section = {"models": "", "domains": {}, "pooled": {}}
        parts += ["## With a chat model", EMPTY, f"```\n{COMMAND}\n```", *_tables(nothing, expected)]
    return "\n\n".join(parts) + "\n"


def _is_former(name: str, digest: str) -> bool:
    """Whether the bundled data set ``name`` is no longer what had this digest."""
    return ragsmith.load_dataset(name).digest != digest


def _tables(one: Section, expected: Sequence[str]) -> Iterator[str]:
    found = one["domains"]
    names = list(found) or list(expected)
    counted = [f"{name} (n {its['questions']})" if (its := found.get(name)) else name for name in names]
    rows = []
    for name, title in PIPELINES.items():
        scores = [found[place]["pipelines"].get(name) if place in found else None for place in names]
        known = [its["fitness"] for its in scores if its]
        mean = numbers.plain(sum(known) / len(known)) if known and len(known) == len(names) else numbers.MISSING
        rows.append([title, *map(_score, scores), mean])
    yield _table(["F on test questions", *counted, "mean"], rows)
    if not found:
        return
    if former := [name for name in names if name in bundled_domains() and _is_former(name, found[name]["digest"])]:
        yield f"Found before the data set changed, and not searched again since: {', '.join(former)}."
    yield DIFFERENCES
    rows = []
    for name in RIVALS:
        each = [found[place]["differences"].get(name) for place in names]
        rows.append([PIPELINES[name], *map(_signed, each), _together(one["pooled"].get(name))])
    yield _table(["winner less", *names, "pooled"], rows)
    rows = []
    for place in names:
        for name in ("winner", "single", "recommended"):
            if its := found[place]["pipelines"].get(name):
                rows.append([place, PIPELINES[name], its["pipeline"], f"{its['calls']:.1f}"])
    yield "What these pipelines are, and the calls of models that a question takes:"
    yield _table(["domain", "", "pipeline", "calls"], rows)


def _score(its: Mapping[str, Any] | None) -> str:
    if its is None:
        return numbers.MISSING
    return f"{numbers.plain(its['fitness'])} {numbers.interval(*its['interval'])}"


def _signed(its: Mapping[str, Any] | None) -> str:
    if its is None:
        return numbers.MISSING
    if its.get("same"):
        return "is the winner"
    mark = "\\*" if its["shown"] else ""
    return f"{numbers.signed(its['mean'])}{mark} {numbers.interval(*its['interval'], sign=True)}"


def _together(its: Mapping[str, Any] | None) -> str:
    if its is None:
        return numbers.MISSING
    bounds = numbers.interval(*its["interval"], sign=True)
    return f"{numbers.signed(its['mean'])} {bounds}, {its['agree']} of {its['domains']}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


# --- the command ------------------------------------------------------------------------------------------------------


def read(file: Path) -> list[Section]:
    """The sections that were kept; none where nothing was."""
    return list(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else []


def kept(sections: Sequence[Section], new: Section) -> list[Section]:
    """``sections`` with ``new`` in the place of what was found with the same models on the same domains."""
    others = [one for one in sections if one["models"] != new["models"]]
    whole = _section(new["models"], {**_domains(sections, new["models"]), **new["domains"]})
    return sorted([*others, whole], key=lambda one: (one["models"] != EMBEDDED, one["models"]))


def _domains(sections: Sequence[Section], models: str) -> Mapping[str, Mapping[str, Any]]:
    """What was found with ``models``, by data set."""
    return next((one["domains"] for one in sections if one["models"] == models), {})


def main(arguments: Sequence[str]) -> int:
    """Do what is asked for, and return the exit code: 1 where a domain could not be searched, 130 where one waits."""
    given = _parsed(arguments)
    file = given.output.with_suffix(".json")
    names = given.dataset or list(bundled_domains())
    if given.page:
        write_file(page(read(file), names), given.output)
        return 0
    os.environ.setdefault("RAGSMITH_LEDGER", f"{given.cache}.looks.sqlite")
    asked = {"preset": given.preset, "max_evaluations": given.max_evaluations, "cache": given.cache, **_models(given)}
    called = (
        EMBEDDED if not asked.get("models") else ModelNames().override(asked["models"]).for_role("language_model").name
    )
    limits = Limits(given.max_calls, None, given.max_cost)
    prices = _prices(given.prices, called)
    searches = called == EMBEDDED or bool(limits.by_name)
    published = file.resolve() == PAGE.with_suffix(".json").resolve()
    if searches and published and (unlike := _unlike_published(given, _domains(read(file), called))):
        raise UsageError(
            f"{PAGE.name} holds default searches of all bundled domains, and {unlike} is not one: name another page "
            "with --output FILE"
        )
    if called != EMBEDDED:
        _say_plan(names, called, {**asked, "prices": prices})
    if not searches:
        print("nothing was sent: --max-cost or --max-calls, which bound all domains together, send it")
        return 0
    found = ragsmith.search_each(
        names,
        **asked,
        test=True,
        prices=prices,
        limits=limits if called != EMBEDDED else None,
        workers=given.workers,
        reports=given.reports,
        on_dataset=lambda place, of, name: print(f"{place} of {of}: {name}", file=sys.stderr, flush=True),
    )
    for name, why in {**found.failed, **found.waiting}.items():
        print(f"{name}: {why}", file=sys.stderr)
    whole = {name: one for name, one in found.found.items() if one.state == "finished"}
    if published and len(whole) < len(names) and called == EMBEDDED:
        print(
            f"{PAGE.name} is left as it is, for {len(whole)} of {len(names)} domains ended: the same command goes on "
            "from the cache, or name another page with --output FILE",
            file=sys.stderr,
        )
    elif whole:
        sections = kept(read(file), section(whole, called))
        write_file(json.dumps(sections, indent=1, ensure_ascii=False) + "\n", file)
        write_file(page(sections, list(bundled_domains()) if published else names), given.output)
        print(given.output)
    return 1 if found.failed else 130 if len(whole) < len(names) else 0


def _unlike_published(given: argparse.Namespace, found: Mapping[str, Any]) -> str:
    """What is asked for that the published page, with the domains ``found``, is not made of; "" where nothing is."""
    unlike = []
    if given.dataset is not None and {*given.dataset, *found} != set(bundled_domains()):
        unlike.append("a search of --dataset " + " --dataset ".join(given.dataset))
    if given.preset != PRESET:
        unlike.append(f"one with --preset {given.preset}")
    if given.max_evaluations is not None:
        unlike.append(f"one with --max-evaluations {given.max_evaluations}")
    return " or ".join(unlike)


def _prices(given: str | None, model: str) -> str | dict[str, dict[str, float]] | None:
    """The file of prices, or those of ``model`` from ``INPUT/OUTPUT``."""
    match = re.fullmatch(r"(\d*\.?\d+)/(\d*\.?\d+)", given or "")
    return {model: {"input": float(match[1]), "output": float(match[2])}} if match else given


def _say_plan(names: Sequence[str], called: str, asked: Mapping[str, Any]) -> None:
    """Print what a search of each data set still asks of a chat model; nothing is sent."""
    sums: dict[str, float] = {}
    for name in names:
        total = ragsmith.plan(name, **asked).totals
        shown = {what: total[what] for what in ("calls", "input_tokens", "output_tokens", "cost")}
        print(f"{name}: {_amounts(shown)}", flush=True)
        for what, value in shown.items():
            sums[what] = sums.get(what, 0.0) + (value if value is not None else float("nan"))
    print(f"{called}, all {len(names)}: {_amounts(sums)}")


def _amounts(total: Mapping[str, Any]) -> str:
    cost = total["cost"]
    money = "an unknown cost: give --prices" if cost is None or math.isnan(cost) else f"{cost:,.2f} in money"
    counts = f"{total['calls']:,.0f} calls, {total['input_tokens']:,.0f} tokens in, {total['output_tokens']:,.0f} out"
    return f"{counts}, {money}"


def _models(given: argparse.Namespace) -> dict[str, Any]:
    """The models by role: those of the file, and the chat model that is named, which goes before that of the file."""
    models = read_models(given.models) if given.models else {}
    if given.llm:
        models = {**models, "language_model": given.llm}
    return {"models": models, "base_url": given.base_url} if models else {}


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page", action="store_true", help="only write the page, from what was found before")
    parser.add_argument("--output", "-o", type=Path, default=PAGE, help="the page; its numbers lie beside it, as .json")
    parser.add_argument("--dataset", action="append", help="a data set, several times [all bundled domains]")
    parser.add_argument("--preset", default=PRESET)
    parser.add_argument("--max-evaluations", type=int)
    parser.add_argument("--cache", default="cache.sqlite")
    parser.add_argument("--reports", type=Path, help="a folder for the reports of the searches, and across them [none]")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--llm", help="a chat model, as openai:NAME [the embedded one]")
    parser.add_argument("--models", type=Path, help="a file of models by role")
    parser.add_argument("--base-url")
    parser.add_argument("--prices", help="a file, or INPUT/OUTPUT for a million tokens of the --llm")
    parser.add_argument("--max-calls", type=int, help="of all data sets; without it and --max-cost nothing is asked")
    parser.add_argument("--max-cost", type=float, help="of all data sets, over all commands")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RagsmithError as wrong:
        print(f"error: {redacted(str(wrong))}", file=sys.stderr)
        sys.exit(2)
