"""A gene is a technique with its parameters and, where it was fitted, its numbers; a candidate has one a family."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ragsmith.caches import bounded_cache
from ragsmith.digest import decides_no_value, digest
from ragsmith.errors import SpaceError
from ragsmith.plugins import is_instance_of
from ragsmith.techniques.families import FAMILIES, family_named
from ragsmith.techniques.registry import Parameter, Technique
from ragsmith.text.suggest import did_you_mean

CHUNK_SETTINGS = ("chunk_size", "chunk_overlap")
"""Settings in characters: they decide what a chunk is."""

ROLES = ("embedder", "cross_encoder", "language_model")
"""Settings that are the model of a role."""

SETTINGS = (*CHUNK_SETTINGS, *ROLES)
"""The settings that a space may search over, in the order of their genes."""

GENES = len(FAMILIES)
"""Number of genes that every candidate has; hyperparameter genes follow."""

Value = int | str | Mapping[str, Any]
"""Characters; or a model by name, or by its name and the options that shape its results."""


def _nothing() -> None:
    """What a setting does by itself."""


@dataclass(frozen=True)
class HyperparameterGene(Technique):
    """An option of a further gene, in the place of a technique: its one parameter is the ``value``."""

    value: Value = 0

    @classmethod
    def of(cls, name: str, value: Value) -> HyperparameterGene:
        """The setting ``name`` at ``value``."""
        return cls(name, _nothing, "", value=value)

    @property
    def name(self) -> str:
        """The value in words."""
        if not isinstance(self.value, Mapping):
            return str(self.value)
        options = ", ".join(f"{option}={value}" for option, value in self.value.items() if option != "model")
        return f"{self.value['model']}({options})"

    @property
    def defaults(self) -> dict[str, Any]:
        """The one parameter, which is never another."""
        return {"value": self.value}


@dataclass(frozen=True)
class Fit:
    """What a gene learned on calibration questions.

    ``numbers`` were learned on all of them. A question that was among them is never answered with these: ``held_out``
    has for each fold the marks of its questions, by their wording, and the numbers learned without them. So it is
    independent of the data set of the question.
    """

    numbers: Mapping[str, Any]
    held_out: tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...] = ()

    def fold(self, question: str) -> int | None:
        """The fold of ``held_out`` that the text of a question is in; None where nothing was learned from it."""
        return self._folds.get(mark(question))

    @cached_property
    def _folds(self) -> dict[str, int]:
        return {question: i for i, (questions, _) in enumerate(self.held_out) for question in questions}

    def plain(self) -> dict[str, Any]:
        """The gene as in an exported file."""
        folds = [{"questions": list(questions), "numbers": dict(numbers)} for questions, numbers in self.held_out]
        return {"numbers": dict(self.numbers), "held_out": folds}

    @classmethod
    def read(cls, value: Any) -> Fit:
        """From `plain`.

        Raises:
            ValueError: it is not what `plain` makes.
        """
        try:
            folds = tuple((tuple(fold["questions"]), dict(fold["numbers"])) for fold in value["held_out"])
            return cls(dict(value["numbers"]), folds)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("'fitted' must have 'numbers' and 'held_out'") from error


@bounded_cache(1 << 14, key="a question")
def mark(question: str) -> str:
    """A digest of the wording of a question, regardless of case and spacing: 12 hexadecimal digits."""
    return digest("question", " ".join(question.casefold().split()))[:12]


@dataclass(frozen=True)
class Gene:
    """A technique with all its parameters; ``fit`` is None where nothing is fitted, or not yet."""

    technique: Technique
    parameters: Mapping[str, Parameter]
    fit: Fit | None = None

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.changed.items())
        return f"{self.technique.name}({inside})" if inside else self.technique.name

    @property
    def changed(self) -> dict[str, Parameter]:
        """The parameters that are not at their defaults."""
        return {k: v for k, v in self.parameters.items() if v != self.technique.defaults[k]}

    @cached_property
    def identity(self) -> str:
        """Digest of technique, code, parameters and fitted numbers."""
        fitted = [self.fit.plain()] if self.fit else []
        technique = self.technique
        return digest("gene", technique.family, technique.name, technique.code, dict(self.parameters), *fitted)

    @cached_property
    def learns(self) -> bool:
        """Whether its numbers are fitted on questions."""
        return self.technique.learns(self.parameters)

    @property
    def unfitted(self) -> bool:
        """Whether it lacks its numbers, without which it cannot run: those fitted on questions, or general ones."""
        return self.fit is None and (self.learns or bool(self.technique.signals))

    def facing(self, question: str) -> Gene:
        """The gene that may answer ``question``: its numbers were learned without it."""
        return self if self.fit is None else self.without(self.fit.fold(question))

    def without(self, fold: int | None) -> Gene:
        """The gene with the numbers that were learned without a fold, or on all questions, and no others."""
        if self.fit is None:
            return self
        if fold not in self._parts:
            # general numbers were learned without any fold
            whole = fold is None or not self.fit.held_out
            self._parts[fold] = replace(self, fit=Fit(self.fit.numbers if whole else self.fit.held_out[fold or 0][1]))
        return self._parts[fold]

    @cached_property
    def _parts(self) -> dict[int | None, Gene]:
        return {}

    @decides_no_value
    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps((self.technique.family, self.technique.name, dict(self.parameters), "", self.fit))

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gene) and self.identity == other.identity


Candidate = tuple[Gene, ...]
"""One gene for each family, in the order of `FAMILIES`; behind them those of `SETTINGS` that a space searches over."""


def facing(candidate: Candidate, question: str) -> Candidate:
    """The candidate that may answer ``question``: whatever is fitted in it was fitted without that question."""
    if not any(gene.fit for gene in candidate):
        return candidate
    return tuple(gene.facing(question) for gene in candidate)


def configuration(candidate: Candidate) -> dict[str, Any]:
    """A pipeline as plain data: family to technique, all its parameters, and what was fitted."""
    return {
        gene.technique.family: {
            "technique": gene.technique.name,
            "parameters": dict(gene.parameters),
            **({"fitted": gene.fit.plain()} if gene.fit else {}),
        }
        for gene in candidate
    }


def label(candidate: Candidate) -> str:
    """A pipeline in words: what differs from the plainest one (vector search, nothing else).

    A name that techniques of several families have is said with the family: ``hybrid`` retrieval, ``hybrid`` reranking.
    Settings that were searched over are always said.
    """
    plain = {"none", "top_k", "listing"}
    parts = []
    for gene in candidate:
        if gene.technique.family in SETTINGS:
            parts.append(f"{gene.technique.family} {gene}")
            continue
        if str(gene) in plain:
            continue
        shared = sum(gene.technique.name in family.techniques for family in FAMILIES) > 1
        parts.append(f"{gene.technique.family} {gene}" if shared else str(gene))
    return " + ".join(parts)


def make_gene(
    family_name: str,
    technique: str,
    parameters: Mapping[str, Any] | None = None,
    where: str = "",
    fit: Fit | None = None,
) -> Gene:
    """A gene by name, parameters checked and defaults applied; that of a setting has its value for a parameter."""
    if family_name in SETTINGS:
        setting = HyperparameterGene.of(family_name, (parameters or {})["value"])
        return Gene(setting, setting.defaults)
    family = family_named(family_name, where)
    try:
        found = family[technique]
    except SpaceError as error:
        raise SpaceError(f"{where}: {error}" if where else str(error)) from None
    return Gene(found, found.resolved(parameters or {}, where), fit)


@bounded_cache(1 << 14, key="a pickled gene")
def _unpickled(pickled: bytes) -> Gene:
    """A gene of another process, the same one each time: it remembers its identity, and its parts by fold."""
    return make_gene(*pickle.loads(pickled))


def read_configuration(pipeline: Mapping[str, Mapping[str, Any]], where: str = "") -> Candidate:
    """A pipeline from plain data: family to ``{"technique": name, "parameters": {...}}``, and ``fitted`` if it was.

    Raises:
        SpaceError: a family is missing or unknown, or a technique or parameter is not known.
    """
    for name in pipeline:
        if name not in SETTINGS:
            family_named(name, where)
    missing = [family.name for family in FAMILIES if family.name not in pipeline]
    if missing:
        raise SpaceError(f"{where + ': ' if where else ''}the pipeline has no {', '.join(missing)}")
    names = [*(family.name for family in FAMILIES), *(name for name in SETTINGS if name in pipeline)]
    genes = ((name, pipeline[name]) for name in names)
    return tuple(_read_gene(name, gene, where) for name, gene in genes)


def _problem_of_weights(numbers: Mapping[str, Any], gene: Gene) -> str:
    """What is wrong with the fitted numbers of a gene that has signals; "" where nothing is."""
    weights = numbers.get("weights")
    wanted = [name for name in gene.technique.signals if name != gene.parameters.get("without")]
    if not isinstance(weights, Mapping):
        return "'fitted' has no 'weights' by signal: give a number for each, or drop 'fitted' for general weights"
    for name, value in weights.items():
        if name not in wanted:
            return f"'weights' has {name!r}, and there is no such signal: {did_you_mean(str(name), wanted)}"
        if not is_instance_of(float, value):
            return f"the weight of {name!r} is {value!r}: give a number"
    missing = [name for name in wanted if name not in weights]
    return f"'weights' lacks {', '.join(missing)}: give a number for each signal" if missing else ""


def _read_gene(family: str, gene: Mapping[str, Any], where: str) -> Gene:
    try:
        fit = Fit.read(gene["fitted"]) if "fitted" in gene else None
    except ValueError as error:
        raise SpaceError(f"{where + ': ' if where else ''}{family}: {error}") from None
    read = make_gene(family, gene["technique"], gene.get("parameters", {}), where, fit)
    if read.technique.analysis_only:
        raise SpaceError(f"{where + ': ' if where else ''}{read.technique.name} reads the gold labels: no pipeline may")
    if fit and read.technique.signals:
        for numbers in (fit.numbers, *(its for _, its in fit.held_out)):
            if problem := _problem_of_weights(numbers, read):
                raise SpaceError(f"{where + ': ' if where else ''}{family}.{read.technique.name}: {problem}")
    if fit and not (read.learns or read.technique.signals):
        raise SpaceError(f"{where + ': ' if where else ''}{family}.{read.technique.name} learns nothing: drop 'fitted'")
    return read


NOTHING = "none"
"""The technique of a family that changes nothing."""

SAME = "changes nothing"


def difference(candidate: Candidate, reference: Candidate) -> str:
    """Say what makes ``candidate`` of ``reference``, by family in their order: ``removes reranking cross_encoder``.

    A gene is added, removed or replaced; ``changes nest: aggregate mean_all → mean_present`` where only parameters
    differ.
    """
    pairs = zip(candidate, reference, strict=True)
    return "; ".join(_change(gene, before) for gene, before in pairs if gene != before) or SAME


def _change(gene: Gene, before: Gene) -> str:
    family = gene.technique.family
    if gene.technique == before.technique:
        return f"changes {_name(gene)}: {_values(gene, before)}"
    if before.technique.name == NOTHING:
        return f"adds {family} {gene}"
    if gene.technique.name == NOTHING:
        return f"removes {family} {before}"
    return f"replaces {family} {before} by {gene}"


def _values(gene: Gene, before: Gene) -> str:
    changed = [
        f"{key} {before.parameters[key]} → {value}"
        for key, value in gene.parameters.items()
        if value != before.parameters[key]
    ]
    return ", ".join(changed) or "the numbers that were fitted"


def _name(gene: Gene) -> str:
    """The technique, with its family where two have one of that name."""
    name = gene.technique.name
    alone = sum(name in family.techniques for family in FAMILIES) == 1
    return name if alone else f"{gene.technique.family} {name}"
