"""Search spaces: options, constraints, and the conversion between genomes and candidates. An example of a file:

    name: mine
    description: one sentence
    imports: [my_techniques.py]                          # optional: Python files, relative to this one
    families:
      pre_embedding: [none, hype]
      retrieval:
        - vector
        - hybrid: {fusion: [convex, rrf], weight: 0.5}   # a list is a grid: two options
      reranking: all                                     # every registered technique at its defaults
    constraints:
      - forbid: {pre_embedding: hype, retrieval: bm25}

A genome has the index of an option for each family. Every family must be listed. A space may also search over chunking
and models, whose genes follow those of the families:

    corpus: {chunk_size: [500, 1000], chunk_overlap: [0, 100]}
    models: {embedder: [wordllama, "openai:text-embedding-3-small"]}

A space of another system names the function that builds it, and values of its parameters, in place of ``families``:

    system: my_rag.py:build
    parameters: {k: [5, 3, 8], chunk_size: [700, 400]}   # the default first

One's own prompts of tasks, by role, are files relative to that of the space; several are options, ``default`` is ours:

    prompts: {answer: [default, brief.txt], rewrite_query: terse.txt}
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragsmith.digest import digest, not_fingerprinted
from ragsmith.display import short_repr
from ragsmith.errors import SpaceError, WrongOption
from ragsmith.models.own_prompts import Wordings
from ragsmith.pipelines.genes import N_FAMILIES, Candidate, Gene, label, make_gene, reword
from ragsmith.techniques.families import FAMILIES, FILTER_INDEX
from ragsmith.techniques.task_lookup import tasks_by_role
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.table import Table, texts

Genome = tuple[int, ...]
Constraint = Mapping[str, frozenset[str]]
"""Technique names by family; a candidate that matches all of them is infeasible."""

MAX_ENUMERATED = 2_000_000
"""Maximum number of combinations of constrained families that are enumerated to count feasible genomes."""


@dataclass(frozen=True)
class Space:
    """A search space: the options of every family and of hyperparameters, and constraints.

    Options ``for_unanswerable`` are added if some search questions have no answer in the documents. If the space is of
    another system, ``system`` is the function that builds it, ``FILE.py:FUNCTION`` with a whole path.
    """

    name: str
    description: str
    options: tuple[tuple[Gene, ...], ...]
    forbidden: tuple[Constraint, ...] = ()
    for_unanswerable: tuple[Gene, ...] = ()
    system: str = ""

    @not_fingerprinted
    def __repr__(self) -> str:
        return short_repr(self)

    @not_fingerprinted
    def _repr_html_(self) -> str:
        rows = [(name, ", ".join(map(str, genes))) for name, genes in zip(self.names, self.options, strict=True)]
        return Table(f"{self.name}: {self.size:,} pipelines", texts("family", "options"), rows)._repr_html_()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of options of each family."""
        return tuple(len(options) for options in self.options)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the genes: families and settings."""
        return (*(family.name for family in FAMILIES), *(genes[0].technique.family for genes in self.settings))

    @property
    def settings(self) -> tuple[tuple[Gene, ...], ...]:
        """The options of settings that are part of the space."""
        return self.options[N_FAMILIES:]

    def with_default_settings(self, candidate: Candidate) -> Candidate:
        """Return ``candidate`` with the first option of each setting that it lacks; a pipeline has none of a system."""
        if self.system:
            return candidate
        present = {gene.technique.family for gene in candidate}
        return (*candidate, *(genes[0] for genes in self.settings if genes[0].technique.family not in present))

    def without_settings(self) -> Space:
        """Return the space without settings."""
        return replace(self, options=self.options[:N_FAMILIES]) if self.settings else self

    @property
    def size(self) -> int:
        """Number of genomes."""
        return math.prod(self.sizes)

    @cached_property
    def feasible_size(self) -> int:
        """The number of feasible genomes."""
        if not self.forbidden:
            return self.size
        named = [i for i, f in enumerate(FAMILIES) if any(f.name in c for c in self.forbidden)]
        if math.prod(self.sizes[i] for i in named) > MAX_ENUMERATED:
            raise SpaceError(f"space {self.name!r}: the constraints span too many combinations to count")
        free = math.prod(size for i, size in enumerate(self.sizes) if i not in named)
        ranges = [range(size) if i in named else range(1) for i, size in enumerate(self.sizes)]
        return free * sum(self.is_feasible(genome) for genome in itertools.product(*ranges))

    @cached_property
    def digest(self) -> str:
        """The digest of options and constraints, independent of the name and of the order of families."""
        constraints = sorted(sorted((k, sorted(v)) for k, v in c.items()) for c in self.forbidden)
        return digest("space", [[gene.identity for gene in options] for options in self.options], constraints)

    def candidate(self, genome: Genome) -> Candidate:
        """Return the candidate of a genome."""
        return tuple(options[i] for options, i in zip(self.options, genome, strict=True))

    def genome(self, candidate: Candidate) -> Genome:
        """Return the genome of a candidate.

        Raises:
            SpaceError: the space lacks an option of the candidate.
        """
        try:
            return tuple(options.index(gene) for options, gene in zip(self.options, candidate, strict=True))
        except ValueError:
            raise SpaceError(f"space {self.name!r} does not contain {label(candidate)}") from None

    def is_feasible(self, genome: Genome) -> bool:
        """Return whether ``genome`` satisfies all constraints."""
        return self.allows(self.candidate(genome))

    def allows(self, candidate: Candidate) -> bool:
        """Return whether ``candidate`` satisfies all constraints of the space and of its techniques."""
        names = {gene.technique.family: gene.technique.name for gene in candidate}
        if not all(names[family] in needed for gene in candidate for family, needed in gene.technique.after.items()):
            return False
        return not any(all(names[family] in banned for family, banned in c.items()) for c in self.forbidden)

    def without(self, is_excluded: Callable[[Gene], bool]) -> Space:
        """Return the space without the options for which ``is_excluded`` is true; the same space if there are none.

        Raises:
            SpaceError: a family has no option left.
        """
        remaining = tuple(tuple(gene for gene in genes if not is_excluded(gene)) for genes in self.options)
        conditional = tuple(gene for gene in self.for_unanswerable if not is_excluded(gene))
        if (remaining, conditional) == (self.options, self.for_unanswerable):
            return self
        for name, genes, before in zip(self.names, remaining, self.options, strict=True):
            if not genes:
                raise SpaceError(f"space {self.name!r}: no option of {name} can be used, not even {before[0]}")
        return replace(self, options=remaining, for_unanswerable=conditional)

    def with_unanswerable(self) -> Space:
        """Return the space with the options for questions that have no answer."""
        more = {name: [gene for gene in self.for_unanswerable if gene.technique.family == name] for name in self.names}
        options = tuple((*genes, *more[name]) for name, genes in zip(self.names, self.options, strict=True))
        return replace(self, options=options, for_unanswerable=())

    def with_prompts(self, wordings: Wordings) -> Space:
        """Return the space with every wording of the tasks of its options, by role.

        Raises:
            SpaceError: no option asks for a role, or a placeholder of a prompt is unknown or missing.
        """
        if not wordings:
            return self
        genes = [*itertools.chain.from_iterable(self.options), *self.for_unanswerable]
        known = {role for gene in genes for role in tasks_by_role(gene.technique)}
        for role in wordings:
            if role not in known:
                raise SpaceError(f"no option of the space {self.name!r} asks for {role!r}: {did_you_mean(role, known)}")
        options = tuple(reword(listed, wordings) for listed in self.options)
        return replace(self, options=options, for_unanswerable=reword(self.for_unanswerable, wordings))

    @property
    def own_prompts(self) -> bool:
        """Whether an option has one's own prompt."""
        return any(gene.prompts for genes in (*self.options, self.for_unanswerable) for gene in genes)

    def without_options(self, names: Sequence[str]) -> Space:
        """Return the space without ``names``: ``FAMILY``, which leaves ``none``, or ``FAMILY.OPTION``.

        Raises:
            WrongOption: an option is unknown, or no candidate would remain.
        """
        space = self
        for name in names:
            space = space._without_option(name)
        return replace(space, name=f"{self.name} without {', '.join(names)}") if names else space

    def _without_option(self, name: str) -> Space:
        family, dot, option = name.partition(".")
        families = [each.name for each in FAMILIES]
        if family not in families:
            raise WrongOption(
                "without",
                f"names the unknown family {family!r}: give FAMILY or FAMILY.OPTION, such as retrieval.bm25; "
                + did_you_mean(family, families),
            )
        options = self.options[families.index(family)]
        known = {gene.technique.name for gene in options}
        known |= {gene.technique.name for gene in self.for_unanswerable if gene.technique.family == family}
        if not dot and "none" not in known:
            raise WrongOption(
                "without", f"is {family}, and a pipeline needs one: remove single options, {family}.OPTION"
            )
        if dot and option not in known:
            raise WrongOption(
                "without",
                f"is {name}, and the space {self.name!r} has no such option: {did_you_mean(option, known)}",
            )

        def is_excluded(gene: Gene) -> bool:
            technique = gene.technique
            return technique.family == family and (technique.name == option if dot else technique.name != "none")

        space = self.without(is_excluded)
        if space.feasible_size == 0:
            raise WrongOption(
                "without", f"is {name}, and the constraints of the space {self.name!r} forbid all remaining pipelines"
            )
        return space

    def restricted_to_rankings(self) -> Space:
        """Return the space for tuning retrieval alone, with a single minimal option for each family after the filter.

        Constraints on those families are removed, as they do not affect rankings.
        """
        behind = FAMILIES[FILTER_INDEX + 1 :]
        least = (make_gene(family.name, "none" if "none" in family.techniques else "listing") for family in behind)
        named = {family.name for family in behind}
        forbidden = tuple(constraint for constraint in self.forbidden if not named & set(constraint))
        options = (*self.options[: FILTER_INDEX + 1], *((gene,) for gene in least), *self.settings)
        return replace(self, options=options, forbidden=forbidden, for_unanswerable=())

    def genomes(self) -> Iterator[Genome]:
        """Yield all feasible genomes in lexicographic order."""
        return (g for g in itertools.product(*map(range, self.sizes)) if self.is_feasible(g))
