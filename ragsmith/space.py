"""Search spaces: YAML to options, genome to candidate and back, feasibility and size.

    name: mine
    description: one sentence
    families:
      pre_embedding: [none, hype]
      retrieval:
        - vector
        - hybrid: {fusion: [convex, rrf], weight: 0.5}   # a list is a grid: two options
      reranking: all                                     # every registered technique at its defaults
    constraints:
      - forbid: {pre_embedding: hype, retrieval: bm25}

A genome is one small number per family: the position of its option. Every family must be listed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ragsmith.bundled import bundled_path
from ragsmith.canonical import digest
from ragsmith.errors import SpaceError
from ragsmith.families import FAMILIES
from ragsmith.genes import Candidate, Fit, Gene
from ragsmith.registry import Technique, load_techniques
from ragsmith.strict_yaml import Tree, YamlError, read_yaml
from ragsmith.suggest import did_you_mean

Genome = tuple[int, ...]
Constraint = Mapping[str, frozenset[str]]
"""Family to technique names; a candidate that matches all of it is not feasible."""

ENUMERABLE = 2_000_000
"""Above this many genomes, feasible ones are counted by family instead of one by one only if nothing is forbidden."""


@dataclass(frozen=True)
class Space:
    """The options of every family, and what may not go together."""

    name: str
    description: str
    options: tuple[tuple[Gene, ...], ...]
    forbidden: tuple[Constraint, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of options of each family."""
        return tuple(len(options) for options in self.options)

    @property
    def size(self) -> int:
        """Number of genomes."""
        return math.prod(self.sizes)

    @cached_property
    def feasible_size(self) -> int:
        """Number of genomes that no constraint forbids, counted over the families that constraints name."""
        if not self.forbidden:
            return self.size
        named = [i for i, f in enumerate(FAMILIES) if any(f.name in c for c in self.forbidden)]
        if math.prod(self.sizes[i] for i in named) > ENUMERABLE:
            raise SpaceError(f"space {self.name!r}: the constraints span too many combinations to count")
        free = math.prod(size for i, size in enumerate(self.sizes) if i not in named)
        ranges = [range(size) if i in named else range(1) for i, size in enumerate(self.sizes)]
        return free * sum(self.is_feasible(genome) for genome in itertools.product(*ranges))

    @cached_property
    def digest(self) -> str:
        """Identifies options and constraints, whatever the space is called and in whatever order it lists families."""
        constraints = sorted(sorted((k, sorted(v)) for k, v in c.items()) for c in self.forbidden)
        return digest("space", [[gene.identity for gene in options] for options in self.options], constraints)

    def candidate(self, genome: Genome) -> Candidate:
        """The pipeline that a genome stands for."""
        return tuple(options[i] for options, i in zip(self.options, genome, strict=True))

    def genome(self, candidate: Candidate) -> Genome:
        """The genome of a pipeline.

        Raises:
            SpaceError: the space does not have one of its options.
        """
        try:
            return tuple(options.index(gene) for options, gene in zip(self.options, candidate, strict=True))
        except ValueError:
            raise SpaceError(f"space {self.name!r} does not contain {label(candidate)}") from None

    def is_feasible(self, genome: Genome) -> bool:
        """Whether no constraint forbids ``genome``."""
        return self.allows(self.candidate(genome))

    def allows(self, candidate: Candidate) -> bool:
        """Whether no constraint, and no technique in it, forbids ``candidate``, be it in the space or not."""
        names = {gene.technique.family: gene.technique.name for gene in candidate}
        if not all(names[family] in needed for gene in candidate for family, needed in gene.technique.after.items()):
            return False
        return not any(all(names[family] in banned for family, banned in c.items()) for c in self.forbidden)

    def without(self, unable: Callable[[Gene], bool]) -> Space:
        """The space without the options that ``unable`` holds of; the same space where it holds of none.

        Raises:
            SpaceError: a family has no option left.
        """
        left = tuple(tuple(gene for gene in genes if not unable(gene)) for genes in self.options)
        if left == self.options:
            return self
        for family, genes, before in zip(FAMILIES, left, self.options, strict=True):
            if not genes:
                raise SpaceError(f"space {self.name!r}: no option of {family.name} can be used, not even {before[0]}")
        return replace(self, options=left)

    def repair(self, genome: Genome) -> Genome:
        """The nearest feasible genome: fewest genes changed, then the first in order of options."""
        if not self.forbidden or self.is_feasible(genome):
            return genome
        return next(g for g in self._by_distance(genome) if self.is_feasible(g))

    def genomes(self) -> Iterator[Genome]:
        """Every feasible genome, in order."""
        return (g for g in itertools.product(*map(range, self.sizes)) if self.is_feasible(g))

    def _by_distance(self, genome: Genome) -> Iterator[Genome]:
        for n in range(1, len(genome) + 1):
            for places in itertools.combinations(range(len(genome)), n):
                for values in itertools.product(*(range(self.sizes[p]) for p in places)):
                    changed = list(genome)
                    for place, value in zip(places, values, strict=True):
                        changed[place] = value
                    yield tuple(changed)


def label(candidate: Candidate) -> str:
    """A pipeline in words: what differs from the plainest one (vector search, nothing else).

    A name that techniques of several families have is said with the family: ``hybrid`` retrieval, ``hybrid`` reranking.
    """
    plain = {"none", "top_k", "listing"}
    parts = []
    for gene in candidate:
        if str(gene) in plain:
            continue
        shared = sum(gene.technique.name in family.techniques for family in FAMILIES) > 1
        parts.append(f"{gene.technique.family} {gene}" if shared else str(gene))
    return " + ".join(parts)


def load_space(name_or_path: str | Path) -> Space:
    """Read a space by its bundled name or by path.

    Raises:
        SpaceError: the file is missing or wrong; the message has file and line.
    """
    load_techniques()
    path = bundled_path("search_spaces", str(name_or_path))
    try:
        tree = read_yaml(path)
    except YamlError as error:
        raise SpaceError(str(error)) from error
    return _Reader(tree, path.stem).space()


def make_gene(
    family_name: str,
    technique: str,
    parameters: Mapping[str, Any] | None = None,
    where: str = "",
    fit: Fit | None = None,
) -> Gene:
    """A gene by name, parameters checked and defaults applied."""
    family = _family(family_name, where)
    try:
        found = family[technique]
    except SpaceError as error:
        raise SpaceError(f"{where}: {error}" if where else str(error)) from None
    return Gene(found, found.resolved(parameters or {}, where), fit)


def read_configuration(pipeline: Mapping[str, Mapping[str, Any]], where: str = "") -> Candidate:
    """A pipeline from plain data: family to ``{"technique": name, "parameters": {...}}``, and ``fitted`` if it was.

    Raises:
        SpaceError: a family is missing or unknown, or a technique or parameter is not known.
    """
    for name in pipeline:
        _family(name, where)
    missing = [family.name for family in FAMILIES if family.name not in pipeline]
    if missing:
        raise SpaceError(f"{where + ': ' if where else ''}the pipeline has no {', '.join(missing)}")
    genes = ((family.name, pipeline[family.name]) for family in FAMILIES)
    return tuple(_read_gene(name, gene, where) for name, gene in genes)


def _read_gene(family: str, gene: Mapping[str, Any], where: str) -> Gene:
    try:
        fit = Fit.read(gene["fitted"]) if "fitted" in gene else None
    except ValueError as error:
        raise SpaceError(f"{where + ': ' if where else ''}{family}: {error}") from None
    read = make_gene(family, gene["technique"], gene.get("parameters", {}), where, fit)
    if read.technique.analysis_only:
        raise SpaceError(f"{where + ': ' if where else ''}{read.technique.name} reads the gold labels: no pipeline may")
    if fit and not read.technique.fitting:
        raise SpaceError(f"{where + ': ' if where else ''}{family}.{read.technique.name} learns nothing: drop 'fitted'")
    return read


def _family(name: str, where: str) -> Any:
    for family in FAMILIES:
        if family.name == name:
            return family
    known = [family.name for family in FAMILIES]
    place = f"{where}: " if where else ""
    raise SpaceError(f"{place}unknown family {name!r}: {did_you_mean(name, known)}")


class _Reader:
    """Turns one YAML tree into a space; every complaint has file and line."""

    def __init__(self, tree: Tree, default_name: str) -> None:
        self._tree = tree
        self._default_name = default_name

    def space(self) -> Space:
        root = self._mapping((), ("name", "description", "families", "constraints"))
        name = root.get("name", self._default_name)
        description = root.get("description", "")
        for key, value in (("name", name), ("description", description)):
            if not isinstance(value, str):
                raise self._error((key,), f"{key} must be text, not {value!r}")
        if "families" not in root:
            raise self._error((), "'families' is missing")
        families = self._mapping(("families",), [family.name for family in FAMILIES])
        missing = [family.name for family in FAMILIES if family.name not in families]
        if missing:
            raise self._error(("families",), f"no options for {', '.join(missing)}: list at least one for each family")
        options = tuple(self._options(family.name, families[family.name]) for family in FAMILIES)
        constraints = [*self._constraints(root.get("constraints", []), options), *self._declared(options)]
        space = Space(name, description, options, tuple(constraints))
        if space.feasible_size == 0:
            raise self._error(("constraints",), "the constraints forbid every candidate")
        return space

    def _options(self, family: str, listed: Any) -> tuple[Gene, ...]:
        if listed == "all":
            known = _family(family, "").techniques
            return tuple(make_gene(family, name) for name in sorted(known) if self._is_possible(known[name]))
        path = ("families", family)
        if not isinstance(listed, list) or not listed:
            raise self._error(path, f"{family} must be a list of techniques, or the word all")
        genes: list[Gene] = []
        for i, item in enumerate(listed):
            for gene in self._expand(family, item, (*path, i)):
                if gene in genes:
                    raise self._error((*path, i), f"{family} lists {gene} twice")
                if gene.technique.analysis_only:
                    name = gene.technique.name
                    raise self._error((*path, i), f"{name} reads the gold labels: `ragsmith audit` tries it by itself")
                genes.append(gene)
        return tuple(genes)

    def _is_possible(self, technique: Technique) -> bool:
        """Whether ``all`` means this technique as well: not what reads the gold, nor what lacks its predecessor."""
        tree: Any = self._tree.data
        families = tree["families"]

        def lists(family: str, needed: Sequence[str]) -> bool:
            listed = families.get(family)
            names = (next(iter(item)) if isinstance(item, dict) and item else item for item in listed or ())
            return listed == "all" or (isinstance(listed, list) and any(name in needed for name in names))

        return not technique.analysis_only and all(lists(*pair) for pair in technique.after.items())

    def _expand(self, family: str, item: Any, path: tuple[Any, ...]) -> Iterator[Gene]:
        where = self._tree.where(*path)
        if isinstance(item, str):
            yield make_gene(family, item, {}, where)
            return
        if not isinstance(item, dict) or len(item) != 1:
            raise self._error(path, f"an option is a name or 'name: {{parameters}}', not {item!r}")
        name, given = next(iter(item.items()))
        if not isinstance(given, dict):
            raise self._error(path, f"the parameters of {name} must be 'name: value' pairs, not {given!r}")
        grid = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
        for key, values in grid.items():
            if not values:
                raise self._error(path, f"{name}: {key} has no values")
        for chosen in itertools.product(*grid.values()):
            yield make_gene(family, str(name), dict(zip(grid, chosen, strict=True)), where)

    def _constraints(self, listed: Any, options: Sequence[tuple[Gene, ...]]) -> tuple[Constraint, ...]:
        if not isinstance(listed, list):
            raise self._error(("constraints",), "constraints must be a list of 'forbid: {family: technique, ...}'")
        known = {f.name: {g.technique.name for g in genes} for f, genes in zip(FAMILIES, options, strict=True)}
        found = []
        for i, item in enumerate(listed):
            path = ("constraints", i)
            if not isinstance(item, dict) or set(item) != {"forbid"} or not isinstance(item["forbid"], dict):
                raise self._error(path, "a constraint is 'forbid: {family: technique, ...}'")
            constraint = {}
            for family, names in item["forbid"].items():
                if family not in known:
                    raise self._error(path, f"unknown family {family!r}: {did_you_mean(str(family), known)}")
                listed_names = names if isinstance(names, list) else [names]
                if not listed_names or not all(isinstance(name, str) for name in listed_names):
                    raise self._error(path, f"forbid {family} by the name of a technique, or a list of names")
                banned = frozenset(listed_names)
                unknown = sorted(banned - known[family])
                if unknown:
                    raise self._error(path, f"{family} has no option {', '.join(unknown)} in this space")
                constraint[family] = banned
            if len(constraint) < 2:
                raise self._error(path, "a constraint names at least two families; to drop one option, do not list it")
            found.append(constraint)
        return tuple(found)

    def _declared(self, options: Sequence[tuple[Gene, ...]]) -> Iterator[Constraint]:
        """What techniques themselves forbid: to come after anything but what they are made for."""
        names = {f.name: frozenset(g.technique.name for g in genes) for f, genes in zip(FAMILIES, options, strict=True)}
        seen = set()
        for gene in itertools.chain.from_iterable(options):
            family, name = gene.technique.family, gene.technique.name
            for other, needed in gene.technique.after.items():
                if (family, name, other) in seen:
                    continue
                seen.add((family, name, other))
                if not names[other] & set(needed):
                    listed = " or ".join(needed)
                    raise self._error(("families", family), f"{name} needs {other} {listed}, which the space lacks")
                if others := names[other] - set(needed):
                    yield {other: others, family: frozenset({name})}

    def _mapping(self, path: tuple[Any, ...], known: Sequence[str]) -> dict[str, Any]:
        value: Any = self._tree.data
        for step in path:
            value = value[step]
        if not isinstance(value, dict):
            raise self._error(path, f"{path[-1] if path else 'a space'} must be 'name: value' pairs, not {value!r}")
        for key in value:
            if key not in known:
                raise self._error((*path, key), f"unknown key {key!r}: {did_you_mean(str(key), known)}")
        return value

    def _error(self, path: tuple[Any, ...], message: str) -> SpaceError:
        return SpaceError(f"{self._tree.where(*path)}: {message}")
