"""Search spaces: YAML to options, genome to candidate and back, feasibility and size.

    name: mine
    description: one sentence
    imports: [my_techniques.py]                          # if any: Python files, relative to this one
    families:
      pre_embedding: [none, hype]
      retrieval:
        - vector
        - hybrid: {fusion: [convex, rrf], weight: 0.5}   # a list is a grid: two options
      reranking: all                                     # every registered technique at its defaults
    constraints:
      - forbid: {pre_embedding: hype, retrieval: bm25}

A genome is one small number per family: the position of its option. Every family must be listed. A space may also
search over chunking and models; these genes follow those of the families:

    corpus: {chunk_size: [500, 1000], chunk_overlap: [0, 100]}
    models: {embedder: [wordllama, "openai:text-embedding-3-small"]}
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragsmith.digest import digest
from ragsmith.errors import SpaceError
from ragsmith.pipelines.genes import GENES, Candidate, Gene, label, make_gene
from ragsmith.techniques.families import FAMILIES, FILTER, family_named
from ragsmith.text.suggest import did_you_mean

Genome = tuple[int, ...]
Constraint = Mapping[str, frozenset[str]]
"""Family to technique names; a candidate that matches all of it is not feasible."""

ENUMERABLE = 2_000_000
"""Above this many genomes, feasible ones are counted by family instead of one by one only if nothing is forbidden."""


@dataclass(frozen=True)
class Space:
    """The options of every family, then those of the settings it searches over, and what may not go together."""

    name: str
    description: str
    options: tuple[tuple[Gene, ...], ...]
    forbidden: tuple[Constraint, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of options of each family."""
        return tuple(len(options) for options in self.options)

    @property
    def names(self) -> tuple[str, ...]:
        """What each gene is of: the families, and settings."""
        return (*(family.name for family in FAMILIES), *(genes[0].technique.family for genes in self.settings))

    @property
    def settings(self) -> tuple[tuple[Gene, ...], ...]:
        """The options of the settings that are searched over."""
        return self.options[GENES:]

    def settled(self, candidate: Candidate) -> Candidate:
        """``candidate`` with the first option of each setting that it says nothing of."""
        said = {gene.technique.family for gene in candidate}
        return (*candidate, *(genes[0] for genes in self.settings if genes[0].technique.family not in said))

    def of_families(self) -> Space:
        """The space without settings to search over."""
        return replace(self, options=self.options[:GENES]) if self.settings else self

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
        """The pipeline of a genome."""
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
        for name, genes, before in zip(self.names, left, self.options, strict=True):
            if not genes:
                raise SpaceError(f"space {self.name!r}: no option of {name} can be used, not even {before[0]}")
        return replace(self, options=left)

    def adding(self, family: str, technique: str) -> Space:
        """The space with every option of a technique that it does not have; the same space where it has one."""
        place = FAMILIES.index(family_named(family, "options"))
        if any(gene.technique.name == technique for gene in self.options[place]):
            return self
        choices = FAMILIES[place].techniques[technique].choices
        grids = itertools.product(*([(name, value) for value in values] for name, values in choices.items()))
        genes = dict.fromkeys(make_gene(family, technique, dict(chosen)) for chosen in grids)
        options = (*self.options[:place], (*self.options[place], *genes), *self.options[place + 1 :])
        return replace(self, options=options)

    def leaving_out(self, names: Sequence[str]) -> Space:
        """The space without what ``names`` list: ``FAMILY``, of which ``none`` is left, or ``FAMILY.OPTION``.

        Raises:
            SpaceError: the space has no such option, or nothing would be left.
        """
        space = self
        for name in names:
            space = space._leaving_out(name)
        return replace(space, name=f"{self.name} without {', '.join(names)}") if names else space

    def _leaving_out(self, name: str) -> Space:
        family, dot, option = name.partition(".")
        its = family_named(family, "--without")
        options = self.options[FAMILIES.index(its)]
        known = {gene.technique.name for gene in options}
        if not dot and "none" not in known:
            raise SpaceError(f"--without {family}: a pipeline needs one; leave single options out, as {family}.OPTION")
        if dot and option not in known:
            raise SpaceError(
                f"--without {name}: the space {self.name!r} has no such option: {did_you_mean(option, known)}"
            )

        def goes(gene: Gene) -> bool:
            technique = gene.technique
            return technique.family == family and (technique.name == option if dot else technique.name != "none")

        left = self.without(goes)
        if left.feasible_size == 0:
            raise SpaceError(f"--without {name}: the constraints of the space {self.name!r} forbid all that is left")
        return left

    def of_rankings(self) -> Space:
        """The space of what rankings depend on; in each family behind the filter there is what does least.

        Constraints that name such a family say nothing of rankings, and go.
        """
        behind = FAMILIES[FILTER + 1 :]
        least = (make_gene(family.name, "none" if "none" in family.techniques else "listing") for family in behind)
        named = {family.name for family in behind}
        forbidden = tuple(constraint for constraint in self.forbidden if not named & set(constraint))
        options = (*self.options[: FILTER + 1], *((gene,) for gene in least), *self.settings)
        return replace(self, options=options, forbidden=forbidden)

    def genomes(self) -> Iterator[Genome]:
        """Every feasible genome, in order."""
        return (g for g in itertools.product(*map(range, self.sizes)) if self.is_feasible(g))
