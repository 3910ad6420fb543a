"""Genes (techniques with parameters and fitted numbers) and candidates (one gene per family)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from ragsmith.caches import bounded_cache
from ragsmith.cells import is_in_cell
from ragsmith.digest import digest, not_fingerprinted
from ragsmith.errors import SpaceError
from ragsmith.models.names import ModelName, model_name_from
from ragsmith.models.own_prompts import BUILT_IN, OwnPrompt, Wordings
from ragsmith.models.tasks import Task
from ragsmith.plugins import is_instance_of
from ragsmith.techniques.families import FAMILIES, get_family
from ragsmith.techniques.registry import Parameter, Technique
from ragsmith.techniques.task_lookup import find_tasks, tasks_by_role
from ragsmith.text.suggest import did_you_mean

CHUNK_SETTINGS = ("chunk_size", "chunk_overlap")
"""Settings of the chunker, in characters."""

ROLES = ("embedder", "cross_encoder", "language_model")
"""Settings of models by role."""

SETTINGS = (*CHUNK_SETTINGS, *ROLES)
"""Settings that a space may search over, in the order of their genes."""

SYSTEM = "system"
"""The setting that names another system (`ragsmith.systems`); its parameters are settings ``system.NAME``."""

N_FAMILIES = len(FAMILIES)
"""Number of families; the genes of hyperparameters follow those of the families."""

Value = Parameter | Mapping[str, Any]
"""A number of characters, a model as a name or as a name with options, or the value of a parameter of a system."""


def is_setting(name: str) -> bool:
    """Whether genes called ``name`` are hyperparameters rather than techniques of a family."""
    return name in SETTINGS or name.partition(".")[0] == SYSTEM


def _no_operation() -> None:
    """Do nothing (the function of a hyperparameter gene)."""


@dataclass(frozen=True)
class HyperparameterGene(Technique):
    """A value of a hyperparameter, as a technique whose only parameter is ``value``.

    The parameter has no address, limit or other option of how a model is called; ``value`` has them. ``version`` is a
    digest of the program behind the value, if there is one.
    """

    value: Value = 0
    version: str = ""

    @property
    def name(self) -> str:
        """The value as text."""
        value = self.defaults["value"]
        if not isinstance(value, Mapping):
            return str(value)
        options = ", ".join(f"{option}={setting}" for option, setting in value.items() if option != "model")
        return f"{value['model']}({options})"

    @property
    def defaults(self) -> dict[str, Any]:
        """The fixed value, and its version if it has one."""
        named = model_name_from(self.value) if isinstance(self.value, Mapping) else None
        version = {"version": self.version} if self.version else {}
        return {"value": named.to_record() if isinstance(named, ModelName) else self.value, **version}


@dataclass(frozen=True)
class Fit:
    """The fitted numbers of a gene, with cross-fitting.

    ``numbers`` were fitted on all calibration questions. For each fold, ``held_out`` has the digests of its questions
    and the numbers fitted without them, which are used to answer these questions in any data set.
    """

    numbers: Mapping[str, Any]
    held_out: tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...] = ()

    def fold(self, question: str) -> int | None:
        """Return the index of the fold of ``held_out`` that contains a question, or None."""
        return self._folds.get(question_digest(question))

    @cached_property
    def _folds(self) -> dict[str, int]:
        return {question: i for i, (questions, _) in enumerate(self.held_out) for question in questions}

    def to_dict(self) -> dict[str, Any]:
        """Return the fit as it is stored in exported files."""
        folds = [{"questions": list(questions), "numbers": dict(numbers)} for questions, numbers in self.held_out]
        return {"numbers": dict(self.numbers), "held_out": folds}

    @classmethod
    def from_dict(cls, value: Any) -> Fit:
        """Create a fit from the output of `to_dict`.

        Raises:
            ValueError: the structure is invalid.
        """
        try:
            folds = tuple((tuple(fold["questions"]), dict(fold["numbers"])) for fold in value["held_out"])
            return cls(dict(value["numbers"]), folds)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("'fitted' must have 'numbers' and 'held_out'") from error


@bounded_cache(1 << 14, key="a question")
def question_digest(question: str) -> str:
    """Return the digest of a question, ignoring case and spacing, as 12 hexadecimal digits."""
    return digest("question", " ".join(question.casefold().split()))[:12]


@dataclass(frozen=True)
class Gene:
    """A technique with all its parameters; ``fit`` is None if it is not fitted.

    ``prompts`` are one's own prompts of the tasks of the technique, by role.
    """

    technique: Technique
    parameters: Mapping[str, Parameter]
    fit: Fit | None = None
    prompts: Mapping[str, OwnPrompt] = field(default_factory=dict)

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.changed.items())
        return f"{self.technique.name}({arguments})" if arguments else self.technique.name

    @property
    def changed(self) -> dict[str, Parameter]:
        """The parameters that differ from their defaults, and the names of one's own prompts."""
        parameters = {k: v for k, v in self.parameters.items() if v != self.technique.defaults[k]}
        return parameters | {f"{role}_prompt": own.name for role, own in self.prompts.items()}

    @cached_property
    def identity(self) -> str:
        """The digest of technique, code, parameters, fitted numbers and the texts of one's own prompts."""
        further = [self.fit.to_dict()] if self.fit else []
        further += [{"prompts": self.prompts}] if self.prompts else []
        technique = self.technique
        return digest("gene", technique.family, technique.name, technique.code, dict(self.parameters), *further)

    @cached_property
    def learns(self) -> bool:
        """Whether the technique is fitted on questions."""
        return self.technique.learns(self.parameters)

    @cached_property
    def tools(self) -> frozenset[str]:
        """The kinds of tools that it uses; one that is a choice of a parameter, only if it is chosen."""
        choices = {value for values in self.technique.choices.values() for value in values}
        chosen = {value for value in self.parameters.values() if isinstance(value, str)}
        return frozenset(self.technique.tools.values()) - (choices - chosen)

    @property
    def unfitted(self) -> bool:
        """Whether the gene requires fitted or general numbers that it does not have."""
        return self.fit is None and (self.learns or bool(self.technique.signals))

    def out_of_fold(self, question: str) -> Gene:
        """Return the gene with numbers fitted without ``question``, or on all questions if it is in no fold."""
        return self if self.fit is None else self.without(self.fit.fold(question))

    def without(self, fold: int | None) -> Gene:
        """Return the gene with only the numbers fitted without ``fold``, or on all questions for None."""
        if self.fit is None:
            return self
        if fold not in self._by_fold:
            # general numbers have no folds
            on_all = fold is None or not self.fit.held_out
            numbers = self.fit.numbers if on_all else self.fit.held_out[fold or 0][1]
            self._by_fold[fold] = replace(self, fit=Fit(numbers))
        return self._by_fold[fold]

    @cached_property
    def _by_fold(self) -> dict[int | None, Gene]:
        return {}

    @not_fingerprinted
    def __reduce__(self) -> tuple[Any, ...]:
        if is_in_cell(self.technique.fn):  # which may be run again: not cached
            options = dict(self.parameters), "", self.fit, dict(self.prompts)
            return make_gene, (self.technique.family, self.technique.name, *options)
        return _unpickle_gene, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        setting = self.technique if isinstance(self.technique, HyperparameterGene) else None
        parameters = {**self.parameters, "value": setting.value} if setting else dict(self.parameters)
        options = parameters, "", self.fit, dict(self.prompts)
        return pickle.dumps((self.technique.family, self.technique.name, *options))

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gene) and self.identity == other.identity


Candidate = tuple[Gene, ...]
"""One gene per family in the order of `FAMILIES`, followed by those of `SETTINGS` in the space."""


def out_of_fold(candidate: Candidate, question: str) -> Candidate:
    """Return the candidate for answering ``question``: with numbers fitted without it (see `Gene.out_of_fold`)."""
    if not any(gene.fit for gene in candidate):
        return candidate
    return tuple(gene.out_of_fold(question) for gene in candidate)


def sort_names(names: Iterable[str]) -> list[str]:
    """Sort names of genes in the order of genomes: families, settings, then the parameters of a system by name."""
    order = {name: place for place, name in enumerate((*(family.name for family in FAMILIES), *SETTINGS))}
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))


def configuration(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as a dict: technique, parameters, fitted numbers and one's own prompts by family."""
    return {
        gene.technique.family: {
            "technique": gene.technique.name,
            "parameters": dict(gene.parameters),
            **({"fitted": gene.fit.to_dict()} if gene.fit else {}),
            **({"prompts": {role: asdict(own) for role, own in gene.prompts.items()}} if gene.prompts else {}),
        }
        for gene in candidate
    }


def label(candidate: Candidate) -> str:
    """Return a label of a candidate, which names its differences from plain vector search.

    Names of techniques of several families are qualified: ``retrieval hybrid``, ``reranking hybrid``. Settings
    are always included. Another system is named with its parameters: ``my_rag.py:build(k=5)``.
    """
    if parameters := system_parameters(candidate):
        names = {gene.technique.family: str(gene) for gene in candidate[N_FAMILIES:]}
        listed = ", ".join(f"{name}={names[f'{SYSTEM}.{name}']}" for name in parameters)
        return f"{names[SYSTEM]}({listed})"
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


def system_parameters(candidate: Candidate) -> dict[str, Parameter]:
    """Return the parameters of the system that ``candidate`` is; {} for a pipeline."""
    chosen = {gene.technique.family.partition(".")[2]: gene for gene in candidate if is_setting(gene.technique.family)}
    return {name: gene.parameters["value"] for name, gene in chosen.items() if name}


def make_gene(
    family_name: str,
    technique: str,
    parameters: Mapping[str, Any] | None = None,
    where: str = "",
    fit: Fit | None = None,
    prompts: Mapping[str, OwnPrompt] | None = None,
) -> Gene:
    """Create a gene by name with validated parameters and defaults; a setting has the parameter ``value``.

    Raises:
        SpaceError: the technique, a parameter, or the role or a placeholder of a prompt is unknown, or one is missing.
    """
    if is_setting(family_name):
        setting = HyperparameterGene(family_name, _no_operation, "", **(parameters or {}))
        return Gene(setting, setting.defaults)
    family = get_family(family_name, where)
    try:
        found = family[technique]
    except SpaceError as error:
        raise SpaceError(f"{where}: {error}" if where else str(error)) from None
    gene = Gene(found, found.resolve_parameters(parameters or {}, where), fit, prompts or {})
    tasks = tasks_by_role(found) if prompts else {}
    for role, own in gene.prompts.items():
        if role not in tasks:
            raise SpaceError(f"{where}: {found.identity} asks for no {role!r}: {did_you_mean(role, tasks)}")
        check_prompt(tasks[role], own, where)
    return gene


def check_prompt(task: Task[Any], own: OwnPrompt, where: str = "") -> None:
    """Raise SpaceError if the placeholders of one's own prompt are not those of ``task``."""
    try:
        task.reword(own.text)
    except ValueError as error:
        raise SpaceError(f"{where + ': ' if where else ''}prompt {own.name!r}: {error}") from None


def reword(genes: Iterable[Gene], wordings: Wordings) -> tuple[Gene, ...]:
    """Return each of ``genes`` with every combination of the ``wordings`` of its tasks, in place of those it has.

    Raises:
        SpaceError: a placeholder of a prompt is unknown or missing.
    """
    found: dict[Gene, None] = {}
    for gene in genes:
        tasks = {role: task for role, task in tasks_by_role(gene.technique).items() if role in wordings}
        for role, task in tasks.items():
            for own in filter(None, wordings[role]):
                check_prompt(task, own)
        rest = {role: own for role, own in gene.prompts.items() if role not in tasks}
        for chosen in product(*(wordings[role] for role in tasks)):
            own_prompts = {role: own for role, own in zip(tasks, chosen, strict=True) if own is not None}
            found[replace(gene, prompts=rest | own_prompts)] = None
    return tuple(found)


def list_tasks(
    genes: Iterable[Gene], tasks_of: Callable[[Technique], Iterable[Task[Any]]] = find_tasks
) -> dict[str, Task[Any]]:
    """Return the tasks of options with their own prompts; the name of such a prompt is added to that of its task.

    ``tasks_of`` returns the tasks of a technique with the built-in prompts.
    """
    found: dict[str, Task[Any]] = {}
    for gene in genes:
        for task in tasks_of(gene.technique):
            own = gene.prompts.get(task.name)
            found.setdefault(f"{task.name} ({own.name})" if own else task.name, task.reword(own.text) if own else task)
    return found


@bounded_cache(1 << 14, key="a pickled gene")
def _unpickle_gene(pickled: bytes) -> Gene:
    """Restore a pickled gene; cached, so that its identity and folds are computed once."""
    return make_gene(*pickle.loads(pickled))


def read_configuration(pipeline: Mapping[str, Mapping[str, Any]], where: str = "") -> Candidate:
    """Create a candidate from dicts by family: ``{"technique": name, "parameters": {...}}``, optionally ``fitted``.

    Raises:
        SpaceError: a family is missing, or a family, technique or parameter is unknown.
    """
    for name in pipeline:
        if not is_setting(name):
            get_family(name, where)
    missing = [family.name for family in FAMILIES if family.name not in pipeline]
    if missing:
        raise SpaceError(f"{where + ': ' if where else ''}the pipeline has no {', '.join(missing)}")
    names = [*(family.name for family in FAMILIES), *filter(is_setting, sort_names(pipeline))]
    genes = ((name, pipeline[name]) for name in names)
    return tuple(_read_gene(name, gene, where) for name, gene in genes)


def _weights_problem(numbers: Mapping[str, Any], gene: Gene) -> str:
    """Return a description of the error in the fitted weights of a gene with signals, or ""."""
    weights = numbers.get("weights")
    signals = [name for name in gene.technique.signals if name != gene.parameters.get("without")]
    if not isinstance(weights, Mapping):
        return "'fitted' has no 'weights' by signal: give a number for each, or drop 'fitted' for general weights"
    for name, value in weights.items():
        if name not in signals:
            return f"'weights' has {name!r}, and there is no such signal: {did_you_mean(str(name), signals)}"
        if not is_instance_of(float, value):
            return f"the weight of {name!r} is {value!r}: give a number"
    missing = [name for name in signals if name not in weights]
    return f"'weights' lacks {', '.join(missing)}: give a number for each signal" if missing else ""


def _read_gene(family: str, gene: Mapping[str, Any], where: str) -> Gene:
    try:
        fit = Fit.from_dict(gene["fitted"]) if "fitted" in gene else None
        prompts = {role: OwnPrompt.from_dict(own) for role, own in dict(gene.get("prompts", {})).items()}
    except ValueError as error:
        raise SpaceError(f"{where + ': ' if where else ''}{family}: {error}") from None
    read = make_gene(family, gene["technique"], gene.get("parameters", {}), where, fit, prompts)
    if read.technique.analysis_only:
        raise SpaceError(f"{where + ': ' if where else ''}{read.technique.name} reads the gold labels: remove it")
    if fit and read.technique.signals:
        for numbers in (fit.numbers, *(fold_numbers for _, fold_numbers in fit.held_out)):
            if problem := _weights_problem(numbers, read):
                raise SpaceError(f"{where + ': ' if where else ''}{family}.{read.technique.name}: {problem}")
    if fit and not (read.learns or read.technique.signals):
        raise SpaceError(
            f"{where + ': ' if where else ''}{family}.{read.technique.name} has nothing to fit: drop 'fitted'"
        )
    return read


NONE = "none"
"""The technique of a family that changes nothing."""

NO_CHANGE = "changes nothing"
"""The description of equal candidates."""


def describe_changes(candidate: Candidate, reference: Candidate) -> str:
    """Describe the changes from ``reference`` to ``candidate`` by family: ``removes reranking cross_encoder``.

    If only parameters differ: ``changes nest: aggregate mean_all → mean_present``.
    """
    pairs = zip(candidate, reference, strict=True)
    return "; ".join(_describe_change(gene, before) for gene, before in pairs if gene != before) or NO_CHANGE


def _describe_change(gene: Gene, before: Gene) -> str:
    family = gene.technique.family
    if gene.technique == before.technique:
        return f"changes {_qualified_name(gene)}: {_changed_parameters(gene, before)}"
    if before.technique.name == NONE:
        return f"adds {family} {gene}"
    if gene.technique.name == NONE:
        return f"removes {family} {before}"
    return f"replaces {family} {before} by {gene}"


def _changed_parameters(gene: Gene, before: Gene) -> str:
    now, then = ({**one.parameters, **one.changed} for one in (gene, before))
    changed = [
        f"{key} {then.get(key, BUILT_IN)} → {now.get(key, BUILT_IN)}"
        for key in dict.fromkeys([*now, *then])
        if now.get(key) != then.get(key)
    ]
    return ", ".join(changed) or "the fitted numbers"


def _qualified_name(gene: Gene) -> str:
    """Return the name of the technique, qualified by its family if it is ambiguous."""
    name = gene.technique.name
    is_unique = sum(name in family.techniques for family in FAMILIES) == 1
    return name if is_unique else f"{gene.technique.family} {name}"
