"""The generated pages of docs/: techniques, measures, and tables of search spaces and growth.

python tools/documentation.py            write them
python tools/documentation.py --check    exit 1 and name the pages that are stale
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this checkout is described, not a package that happens to be installed

import growth
import scale

from ragsmith.cli.techniques import technique_to_dict
from ragsmith.evaluation.fitness import BUILTIN_FITNESSES, COMPOSITES, HEADLINE, Fitness
from ragsmith.measures.registry import Measure, Subject
from ragsmith.measures.registry import measures as registered_measures
from ragsmith.pipelines.space_file import load_space
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import Technique, load_techniques

DOCS = ROOT / "docs"
NEEDS = {"fitted": "is fitted on search questions", "gold": "the gold labels: for analysis only"}
"""What tools that are no models mean to a reader."""

SUBJECTS = {"ranking": "the ranking", "passages": "the passages of the prompt", "answer": "the answer"}
"""What a measure judges, in words."""


def techniques() -> Iterator[str]:
    """Every technique by family: what it does, its parameters, what it needs, and its paper."""
    load_techniques()
    yield "# Techniques"
    yield (
        "A pipeline has one option of each of the nine families below, in their order. An option is a technique with "
        "values for its parameters, listed with their defaults and, in brackets, their valid values and "
        "the values that a search may try. `ragsmith techniques NAME` describes one in detail."
    )
    for family in FAMILIES:
        yield f"## {family.name}: {family.purpose}"
        inputs = ", ".join(f"{name}: {name.title()}" for name in family.reads)
        yield f"Signature of its functions: `({inputs}, *, PARAMETERS) -> {family.writes.title()}`."
        for technique in sorted(family.techniques.values(), key=lambda one: (one.name != "none", one.name)):
            yield "\n".join(_technique(technique))
    yield "## A technique of one's own that uses the index"
    yield (
        "An argument of the type `FieldSearch` is the search of the pipeline among the documents with given "
        "[fields](filters.md), and one of the type `EntityGraph` the graph of the entities of the documents, as in "
        "[`graph_expansion`](../ragsmith/techniques/query_expansion/graph_expansion.py). Both are passed in, as models "
        "are ([CONTRIBUTING.md](../CONTRIBUTING.md)). The technique in [`year_filter.py`](year_filter.py) uses the "
        "field `year`, which `dataset.yaml` declares as `year: number` and documents have in their front matter:"
    )
    yield f"```python\n{(DOCS / 'year_filter.py').read_text(encoding='utf-8')}```"
    yield "A search compares it with the question alone:"
    call = 'ragsmith.search("prices", space={"query_expansion": ["none", "year_filter"]}, imports="year_filter.py")'
    yield f"```python\n{call}\n```"


def _technique(technique: Technique) -> Iterator[str]:
    about = technique_to_dict(technique)
    yield f"**[`{technique.name}`](../ragsmith/techniques/{technique.family}/{technique.name}.py)**"
    yield _text(" ".join(filter(None, (about["summary"], about["helps"], about["costs"]))))
    yield f"- {_text(about['method'])}{_paper(technique.paper)}"
    if about["parameters"]:
        yield f"- Parameters: {', '.join(_parameter(technique, *item) for item in about['parameters'].items())}"
    needs = [NEEDS.get(tool, tool.replace("_", " ")) for tool in sorted(set(technique.tools.values()))]
    needs += [f"comes after {family} {' or '.join(names)}" for family, names in technique.after.items()]
    if needs:
        yield f"- Needs: {', '.join(needs)}"


def _parameter(technique: Technique, name: str, default: object) -> str:
    values = ", ".join(f"`{value}`" for value in technique.choices.get(name, ()))
    said = [str(technique.ranges[name])] if name in technique.ranges else []
    said += [f"tried: {values}" if said else values] if values else []
    brackets = f" ({'; '.join(said)})" if said else ""
    return f"`{name} = {default}`{brackets}"


def _paper(paper: str) -> str:
    return f" Paper: {_linked(paper)}." if paper else ""


def _linked(paper: str) -> str:
    """A link under the identifier of the paper; authors and title stay as they are."""
    known = re.fullmatch(r"https://(?:(arxiv)\.org/abs|(doi)\.org)/(.+)", paper)
    shown = f"{'arXiv' if known[1] else 'DOI'} {known[3]}" if known else paper.removeprefix("https://")
    return f"[{shown}]({paper})" if paper.startswith("https://") else paper


def measures() -> Iterator[str]:
    """Every measure by what it judges: its range, which way is better, and its paper; and what fitness is made of."""
    yield "# Measures"
    yield (
        "A measure is computed for each question, and averaged over the questions for which it is defined. Each is a "
        "function in `ragsmith/measures/`; its name is used in user-defined fitnesses, records and CSV."
    )
    yield (
        "A chunk is relevant if it covers at least half of a gold span. For longer spans, every chunk with at least "
        "half of its length in the span is relevant, or, if there is none, the chunk that covers most of it."
    )
    made = {name: f"the mean of {', '.join(f'`{one}`' for one in ones)}" for name, ones in COMPOSITES.items()}
    made["fitness"] = f"the {Fitness().formula}, by default"
    yield "\n".join(f"- `{name}`, {HEADLINE[name]}: {formula}" for name, formula in made.items())
    named = [
        f"- `--fitness {name}`: {_text(' '.join((inspect.getdoc(fn) or '').split()))}"
        for name, fn in BUILTIN_FITNESSES.items()
    ]
    own = (
        "A user-defined fitness (`--fitness FILE.py:function`, in Python also a function or lambda) gets the "
        "measures of a question by name; a measure that the question lacks is None. Before a search computes "
        "anything, the function is tried on made-up measures of each kind of question that the data have: with and "
        "without evidence, answerable or not; each time with all measures 0.5, 0 and 1."
    )
    heading = f"{own}\n\nOther fitnesses:"
    yield "\n".join([heading, "", *named])
    for subject in get_args(Subject):
        yield f"## Of {SUBJECTS[subject]}"
        listed = [one for one in registered_measures().values() if one.subject == subject]
        yield "\n".join(
            ["| name | label | definition | range | requires | paper |", "| --- " * 6 + "|", *map(_measure, listed)]
        )


def _measure(one: Measure) -> str:
    file = Path(inspect.getfile(one.fn)).relative_to(ROOT).as_posix()
    low, high = one.range
    span = f"{low:g} and up" if high == math.inf else f"{low:g} to {high:g}"
    better = {"lower": ", lower is better", None: ", neither is better"}.get(one.direction, "")
    cells = [f"[`{one.name}`](../{file})", one.label, _text(one.summary), span + better]
    return f"| {' | '.join([*cells, ', '.join(one.tools.values()), _linked(one.paper)])} |"


def search_spaces() -> Iterator[str]:
    """The bundled search spaces and their sizes, within a page that is written by hand."""
    page = (DOCS / "search_spaces.md").read_text(encoding="utf-8")
    lines = ["| space | pipelines | what it is |", "| --- | ---: | --- |"]
    for name in ("paper", "default", "seeds", "quick", "translatable"):
        space = load_space(name)
        lines.append(f"| `{name}` | {space.feasible_size:,} | {space.description} |")
    marked = re.compile(r"(<!-- generated -->\n).*?(<!-- end -->)", re.DOTALL)
    yield marked.sub(lambda match: f"{match[1]}\n" + "\n".join(lines) + f"\n\n{match[2]}", page).rstrip("\n")


PAGES = (techniques, measures, search_spaces)
"""What writes a page, in paragraphs; its name is that of the page."""


def pages() -> dict[Path, str]:
    """Every generated page as it should be."""
    written = {DOCS / f"{write.__name__}.md": "\n\n".join(filter(None, write())) + "\n" for write in PAGES}
    return written | growth.pages(DOCS) | scale.pages(DOCS)


def _text(docstring: str) -> str:
    """What docstrings mark as code, as Markdown does."""
    return docstring.replace("``", "`")


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    stale = {path: text for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text}
    for path, text in stale.items():
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is stale: run  python tools/documentation.py", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
