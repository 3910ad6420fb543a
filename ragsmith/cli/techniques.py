"""``ragsmith techniques | measures | space``: list the techniques, the measures and the search spaces."""

import inspect
import math
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from ragsmith.cli.app import app
from ragsmith.cli.options import ImportsOption, JsonOption
from ragsmith.cli.output import print_json, print_lines, print_rows, show_result
from ragsmith.errors import UsageError
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import Technique, load_techniques
from ragsmith.techniques.task_lookup import find_tasks
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.words import sentences


@app.command()
def techniques(
    name: Annotated[str | None, typer.Argument(help="One technique, as name or family.name, or a family.")] = None,
    prompts: Annotated[bool, typer.Option("--prompts", help="Show the prompts of its language tasks.")] = False,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the techniques of each family or of one, or explain a technique."""

    load_techniques()
    listed = [
        t for family in FAMILIES for t in sorted(family.techniques.values(), key=lambda t: (t.name != "none", t.name))
    ]
    if name is not None:
        listed = _find_techniques(listed, name)
    if as_json:
        print_json([technique_to_dict(technique) for technique in listed])
    elif name is not None and name not in {technique.family for technique in listed}:
        print_lines(*(line for technique in listed for line in explain_technique(technique, prompts=prompts)))
    else:
        print_rows(
            [[t.family, t.name, t.summary.replace("``", "`")] for t in listed], ["family", "technique", "summary"]
        )


def _find_techniques(registered: list[Technique], name: str) -> list[Technique]:

    matches = [t for t in registered if name in (t.name, t.family, f"{t.family}.{t.name}")]
    if not matches:
        known = {t.name for t in registered} | ({f"{t.family}.{t.name}" for t in registered} if "." in name else set())
        raise UsageError(f"unknown technique {name!r}: {did_you_mean(name, known)}")
    return matches


@app.command()
def measures(
    name: Annotated[str | None, typer.Argument(help="One measure, by name.")] = None,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the measures that a fitness may use, or explain one."""
    from ragsmith.measures.registry import get_measure
    from ragsmith.measures.registry import measures as registered_measures

    every = [get_measure(name)] if name is not None else list(registered_measures().values())
    if as_json:
        print_json([measure.to_dict() for measure in every])
    elif name is None:
        rows = [[measure.subject, measure.name, measure.label, measure.summary] for measure in every]
        print_rows(rows, ["of the", "measure", "label", "definition"])
    else:
        fields = every[0].to_dict().items()
        listed = {field: ", ".join(map(str, v)) if isinstance(v, list) else v for field, v in fields}
        print_lines(f"{name}: {every[0].heading}", "", *str(inspect.getdoc(every[0].fn)).splitlines(), "")
        print_lines(*(f"{field:<10} {value}" for field, value in listed.items()))


@app.command()
def space(
    name: Annotated[str, typer.Argument(metavar="SPACE", help="A bundled search space by name, or a YAML file.")],
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a search space: its options and its size."""
    from ragsmith.pipelines.space_file import load_space

    loaded = load_space(name)
    searched = loaded.settings if loaded.system else loaded.options  # a system has no techniques
    options = {genes[0].technique.family: [str(gene) for gene in genes] for genes in searched}
    header = {
        "name": loaded.name,
        "description": loaded.description,
        "size": loaded.size,
        "feasible": loaded.feasible_size,
    }
    listed = (
        f"{family:<17} {len(option_names):>2}  {', '.join(option_names)}" for family, option_names in options.items()
    )
    sizes = (
        f"{' x '.join(str(len(genes)) for genes in searched)} = {loaded.size:,} pipelines, "
        f"{loaded.feasible_size:,} of them feasible"
    )
    show_result(
        as_json, {**header, "options": options}, lambda: print_lines(loaded.description, "", *listed, "", sizes)
    )


LINE_WIDTH = 100
"""Maximum number of characters of a line of an explanation."""

FIRST_WORDS: Mapping[str, tuple[str, ...]] = {
    "helps": ("Helps ",),
    "costs": ("Costs ",),
    "against": ("Differences from ", "Against the "),
}
"""The first words of each part of a docstring, by the name of the part."""

GOLD_TOOLS = ("fitted", "gold")
"""Tools of techniques that are not models: gold labels, and parameters fitted on them."""


@dataclass(frozen=True, slots=True)
class TechniqueDoc:
    """The parts of a docstring; every sentence belongs to exactly one part."""

    summary: str
    helps: str
    costs: str
    against: str
    details: str


def split_docstring(docstring: str) -> TechniqueDoc:
    """Return the parts of a docstring, which are recognised by the first words of each sentence.

    ``Helps ...`` and ``Costs ...`` are one sentence each; ``Differences from the paper: ...`` extends to the end of its
    paragraph. All other sentences are details.
    """
    summary, _, rest = inspect.cleandoc(docstring).partition("\n\n")
    parts: dict[str, list[str]] = {name: [] for name in (*FIRST_WORDS, "details")}
    for paragraph in filter(str.strip, rest.split("\n\n")):
        for name, text in _split_paragraph(paragraph).items():
            parts[name].append(text)
    return TechniqueDoc(" ".join(summary.split()), **{name: "\n\n".join(texts) for name, texts in parts.items()})


def _split_paragraph(paragraph: str) -> dict[str, str]:
    """Return the parts of a paragraph; a paragraph with a list or a formula is not split."""
    if any(line.startswith((" ", "- ", "* ")) for line in paragraph.splitlines()):
        return {"details": paragraph}
    flat = " ".join(paragraph.split())
    parts: dict[str, list[str]] = {}
    part = "details"
    for start, end in sentences(flat):
        named_part = next((name for name, words in FIRST_WORDS.items() if flat.startswith(words, start)), None)
        part = named_part or ("against" if part == "against" else "details")
        parts.setdefault(part, []).append(flat[start:end])
    return {name: " ".join(texts) for name, texts in parts.items()}


def technique_to_dict(technique: Technique) -> dict[str, Any]:
    """Return the description of a technique as plain data."""
    return {
        "family": technique.family,
        "name": technique.name,
        "method": _method(technique),
        "paper": technique.paper,
        **asdict(split_docstring(technique.fn.__doc__ or "")),
        "doc": inspect.getdoc(technique.fn),
        "parameters": technique.defaults,
        "ranges": {
            name: {"least": within.least, "most": within.most if within.most < math.inf else None}
            for name, within in technique.ranges.items()
        },
        "choices": {key: list(values) for key, values in technique.choices.items()},
        "needs": [kind for kind in technique.tools.values() if kind not in GOLD_TOOLS],
        "after": {family: list(names) for family, names in technique.after.items()},
        "fitted": technique.fitting is not None,
        "signals": dict(technique.fitting.names) if technique.fitting else {},
        "analysis_only": technique.analysis_only,
        "tasks": [{"name": t.name, "prompt": t.prompt, "max_tokens": t.max_tokens} for t in find_tasks(technique)],
    }


def explain_technique(technique: Technique, *, prompts: bool = False) -> Iterator[str]:
    """Yield the lines that explain a technique; ``prompts`` adds the prompts of its language tasks."""
    doc = split_docstring(technique.fn.__doc__ or "")
    tasks = find_tasks(technique)
    yield f"{technique.family}.{technique.name}"
    yield from ("", *_wrap(doc.summary, "  "))
    yield from _list_section("Method", [_method(technique), technique.paper])
    yield from _text_section("When it helps", doc.helps)
    yield from _text_section("What it costs", doc.costs)
    yield from _text_section("Differences from the original", doc.against)
    yield from _text_section("More", doc.details)
    yield from _list_section("Parameters", _describe_parameters(technique))
    if technique.fitting:
        signals = (f"{name.replace('_', ' ')}: {meaning}" for name, meaning in technique.fitting.names.items())
        yield from _list_section("Signals, each standardised among the candidates of a question", signals)
    yield from _list_section("Needs", _describe_needs(technique))
    yield from _list_section("Asks the language model to", [task.name for task in tasks])
    for task in tasks if prompts else ():
        yield from ("", f"  Prompt of {task.name}")
        yield from (f"    | {line}".rstrip() for line in task.prompt.splitlines())
    yield ""


def _text_section(heading: str, text: str) -> Iterator[str]:
    for number, paragraph in enumerate(filter(None, text.split("\n\n"))):
        yield from ("", *([] if number else [f"  {heading}"]), *_wrap(paragraph, "    "))


def _list_section(heading: str, items: Iterable[str]) -> Iterator[str]:
    for number, item in enumerate(filter(None, items)):
        yield from (*([] if number else ["", f"  {heading}"]), *_wrap(item, "    "))


def _wrap(text: str, indent: str) -> list[str]:
    text = text.replace("``", "`")
    if "\n" in text:  # preformatted
        return [f"{indent}{line}".rstrip() for line in text.splitlines()]
    return textwrap.wrap(
        text,
        LINE_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _describe_parameters(technique: Technique) -> Iterator[str]:
    for key, default in technique.defaults.items():
        within = f" ({technique.ranges[key]})" if key in technique.ranges else ""
        choices = ", ".join(str(choice) or "''" for choice in technique.choices.get(key, ()))
        yield f"{key} = {default!r}{within}{f'  (a search may vary it: {choices})' if choices else ''}"


def _describe_needs(technique: Technique) -> Iterator[str]:
    for kind in technique.tools.values():
        if kind not in GOLD_TOOLS:
            yield f"{kind}, built once for a collection" if kind == "entity_graph" else kind
    for family, names in technique.after.items():
        yield f"{family} {' or '.join(names)} before it"
    if technique.fitting:
        when = "".join(
            f", if {name} is {' or '.join(map(str, values))}" for name, values in technique.fitting.when.items()
        )
        yield f"questions with gold evidence, on which it is fitted{when}; a fitted pipeline carries what it learned"
    if technique.analysis_only:
        yield "the gold evidence of the question itself: for analysis only, and never part of a pipeline"


def _method(technique: Technique) -> str:
    """Return the first line of the docstring of the technique's file."""
    return (inspect.getdoc(sys.modules[technique.fn.__module__]) or "").partition("\n")[0]
