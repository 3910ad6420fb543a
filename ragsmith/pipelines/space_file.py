"""Read a search space from YAML, or from a dictionary.

Every error has file and line, or the path in the dictionary; ``ragsmith space`` prints an example of a file.
"""

import itertools
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from inspect import signature
from pathlib import Path
from typing import Any

from ragsmith.datasets.bundled import bundled_path
from ragsmith.digest import digest
from ragsmith.errors import SpaceError, UsageError
from ragsmith.models.file import parse_model
from ragsmith.models.names import NONE
from ragsmith.models.own_prompts import read_prompts
from ragsmith.models.registry import OBJECT_KIND, option_names
from ragsmith.pipelines.genes import CHUNK_SETTINGS, ROLES, SYSTEM, Gene, Value, make_gene
from ragsmith.pipelines.space import Constraint, Space
from ragsmith.plugins import KINDS, is_instance_of, load_file, version_of
from ragsmith.techniques.families import FAMILIES, get_family
from ragsmith.techniques.registry import Technique, load_techniques
from ragsmith.techniques.user_code import import_files
from ragsmith.text.strict_yaml import YamlPath, YamlTree, read_yaml
from ragsmith.text.suggest import did_you_mean


def load_space(name_or_path: str | Path | Mapping[str, Any]) -> Space:
    """Read a space by its bundled name or by path, or from a dictionary.

    >>> ragsmith.load_space({"retrieval": ["vector", "bm25"], "reranking": "all"}).size
    10

    A dictionary has the content of a file, where families may also be at the top. A family that it leaves out has the
    option of naive RAG alone, and paths of files are relative to the working directory.

    Raises:
        SpaceError: the file is missing, or the space is invalid; the message has file and line.
    """
    load_techniques()
    if isinstance(name_or_path, Mapping):
        return _SpaceReader(_read_mapping(name_or_path), Path("own")).space()
    path = bundled_path("search_spaces", str(name_or_path))
    tree = read_yaml(path, SpaceError)
    if isinstance(tree.data, dict) and "pipeline" in tree.data:
        raise tree.error((), f"this is a pipeline, and no search space: ask it with  ragsmith ask {path} QUESTION")
    return _SpaceReader(tree, path).space()


def read_system(tree: YamlTree, source: Any, folder: Path) -> tuple[Path, str, Callable[..., Any]]:
    """Return the program, the name and the function itself of ``source``: ``FILE.py:FUNCTION``, relative to ``folder``.

    Raises:
        UsageError: the program or its function is missing, or cannot be imported; the message has file and line.
    """
    form = "name the function that takes the parameters and returns the system:  system: my_rag.py:build"
    if not isinstance(source, str):
        raise tree.error((SYSTEM,) if SYSTEM in tree.mapping() else (), form)
    file, _, function = source.rpartition(":")
    program = folder / file
    if not file or not program.is_file():
        raise tree.error((SYSTEM,), f"there is no file {file!r}: {form}")
    try:
        with redirect_stdout(sys.stderr):  # what other people's code prints is no result
            build: Any = getattr(load_file(program), function, None)
    except UsageError as error:
        raise tree.error((SYSTEM,), str(error)) from None
    if not callable(build):
        raise tree.error((SYSTEM,), f"{file} has no function {function!r}: {form}")
    return program, function, build


def _read_mapping(space: Mapping[str, Any]) -> YamlTree:
    """Return a space given as a dictionary as the tree of a file, with an option for every family."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(space), allow_nan=False))  # copies, and tuples are lists
    except (TypeError, ValueError, RecursionError) as error:
        raise SpaceError(
            f"the space is not plain data ({error}): give names, numbers, lists and dictionaries"
        ) from None
    if SYSTEM not in plain and isinstance(plain.get("families", {}), dict):
        listed = plain.get("families", {}) | {name: plain.pop(name) for name in list(plain) if name not in KEYS}
        left_out = {family.name: [_first_option(family.techniques)] for family in FAMILIES if family.name not in listed}
        plain["families"] = listed | left_out
    return YamlTree(plain, "space", {}, SpaceError)


SECTIONS = {"corpus": CHUNK_SETTINGS, "models": ROLES}
"""Settings by the section that lists their values."""

CONDITIONAL = "for_unanswerable"
"""The section with the options that are added if some search questions have no answer."""

KEYS = ("name", "description", "imports", "families", CONDITIONAL, *SECTIONS, "prompts", "constraints")
"""The keys of a space."""

MINIMUM_CHARACTERS = {"chunk_size": 100, "chunk_overlap": 0}
"""Minimum values in characters; a shorter chunk would hardly hold a sentence."""


def _first_option(known: Collection[str]) -> str:
    """Return the technique of naive RAG among the ``known`` ones of a family."""
    return next(name for name in (NONE, "vector", "top_k", "listing") if name in known)


class _SpaceReader:
    """Converts a YAML tree to a space; every error has file and line."""

    def __init__(self, tree: YamlTree, path: Path) -> None:
        self._tree = tree
        self._path = path

    def _refuse_if(self, wrong: object, path: YamlPath, problem: str) -> None:
        """Raise an error with file and line for the value at ``path`` if it is ``wrong``."""
        if wrong:
            raise self._tree.error(path, problem)

    def space(self) -> Space:
        names = [family.name for family in FAMILIES]
        for key in self._tree.mapping(form="a space must be 'name: value' pairs"):
            self._refuse_if(key in names, (key,), f"{key!r} is a family: put the families, indented, below 'families:'")
        root = self._tree.mapping(known=(*KEYS, SYSTEM, "parameters"))
        name = root.get("name", self._path.stem)
        description = root.get("description", "")
        for key, value in (("name", name), ("description", description)):
            self._refuse_if(not isinstance(value, str), (key,), f"{key} must be text, not {value!r}")
        if SYSTEM in root or "parameters" in root:
            return self._system(name, description)
        self._import(root.get("imports", []))
        families = self._tree.mapping(("families",), known=names)
        missing = [family for family in names if family not in families]
        self._refuse_if(
            missing, ("families",), f"no options for {', '.join(missing)}: list at least one for each family"
        )
        options = tuple(self._options(family.name, families[family.name]) for family in FAMILIES)
        constraints = [*self._constraints(root.get("constraints", []), options), *self._technique_constraints(options)]
        settings = [genes for section, names in SECTIONS.items() for genes in self._settings(section, names)]
        self._refuse_long_overlaps()
        space = Space(name, description, (*options, *settings), tuple(constraints), self._conditional(names, options))
        self._refuse_if(space.feasible_size == 0, ("constraints",), "the constraints forbid every candidate")
        try:
            return space.with_prompts(read_prompts(self._tree.mapping(("prompts",), optional=True), self._path.parent))
        except UsageError as error:
            raise self._tree.error(("prompts",), str(error)) from None

    def _system(self, name: str, description: str) -> Space:
        """Return the space of another system, whose parameters are its genes."""
        root = self._tree.mapping(known=("name", "description", SYSTEM, "parameters"))
        program, function, build = read_system(self._tree, root.get(SYSTEM), self._path.parent)
        listed = self._tree.mapping(("parameters",))
        self._refuse_if(not listed, ("parameters",), "list values for at least one parameter, the default first")
        settings = [tuple(self._parameter(one, listed[one])) for one in sorted(listed)]
        try:
            signature(build).bind(**{one: listed[one][0] for one in listed})
        except TypeError as error:
            raise self._tree.error(("parameters",), f"{function} cannot be called with them: {error}") from None
        # a program may read what is beside it, so that a copy elsewhere is another system
        version = f"{version_of(program)}@{digest(str(program.resolve()))[:8]}"
        named = make_gene(SYSTEM, "", {"value": f"{program.name}:{function}", "version": version})
        # the families of a system are those of naive RAG, whose options nothing reads
        families = [(make_gene(family.name, _first_option(family.techniques)),) for family in FAMILIES]
        place = f"{program.resolve()}:{function}"
        return Space(name, description, (*families, (named,), *settings), system=place)

    def _parameter(self, name: str, values: Any) -> Iterator[Gene]:
        """Yield the options of a parameter of a system."""
        path = ("parameters", name)
        self._refuse_if(
            not isinstance(values, list) or not values, path, f"{name} must be a list of values, the default first"
        )
        seen: list[Any] = []
        for i, value in enumerate(values):
            self._refuse_if(
                type(value) not in KINDS, (*path, i), f"{name} must be text, a number, true or false, not {value!r}"
            )
            self._refuse_if([type(value), value] in seen, (*path, i), f"{name} lists {value!r} twice")
            seen.append([type(value), value])
            yield make_gene(f"{SYSTEM}.{name}", "", {"value": value})

    def _conditional(self, names: Sequence[str], options: Sequence[tuple[Gene, ...]]) -> tuple[Gene, ...]:
        """Return the options that are added if some search questions have no answer."""
        listed = self._tree.mapping((CONDITIONAL,), known=names, optional=True)
        found: list[Gene] = []
        for family in listed:
            known = options[names.index(family)]
            for gene in self._options(family, listed[family], CONDITIONAL):
                self._refuse_if(gene in known, (CONDITIONAL, family), f"{family} lists {gene} twice")
                found.append(gene)
        return tuple(found)

    def _import(self, listed: Any) -> None:
        """Import the Python files that the space lists, by paths relative to its own."""
        self._refuse_if(
            not isinstance(listed, list) or not all(isinstance(file, str) for file in listed),
            ("imports",),
            f"imports must be a list of Python files, not {listed!r}",
        )
        for i, file in enumerate(listed):
            try:
                import_files([self._path.parent / file])
            except UsageError as error:
                raise self._tree.error(("imports", i), str(error)) from error

    def _settings(self, section: str, names: Sequence[str]) -> Iterator[tuple[Gene, ...]]:
        """Yield the options of each setting of a section, in their order."""
        listed = self._tree.mapping((section,), known=names, optional=True)
        for name in names:
            if name not in listed:
                continue
            values = listed[name]
            self._refuse_if(
                not isinstance(values, list) or not values,
                (section, name),
                f"{name} must be a list of values, the default first",
            )
            genes: list[Gene] = []
            for i, value in enumerate(values):
                gene = make_gene(name, "", {"value": self._value(name, value, (section, name, i))})
                self._refuse_if(gene in genes, (section, name, i), f"{name} lists {gene} twice")
                genes.append(gene)
            yield tuple(genes)

    def _refuse_long_overlaps(self) -> None:
        """Reject overlaps as long as the shortest chunks, if the chunk sizes are listed."""
        listed = self._tree.mapping(("corpus",), optional=True)
        if "chunk_size" not in listed:
            return
        shortest = min(listed["chunk_size"])
        for i, overlap in enumerate(listed.get("chunk_overlap", [])):
            self._refuse_if(
                overlap >= shortest,
                ("corpus", "chunk_overlap", i),
                f"chunks of {shortest} characters cannot overlap by {overlap}: list less, or longer chunks only",
            )

    def _value(self, name: str, value: Any, path: tuple[Any, ...]) -> Value:
        """Return a validated value of a setting."""
        self._refuse_if(
            value == NONE and name in ROLES,
            path,
            f"{NONE} is no model to search over: leave out the techniques that need one",
        )
        if name in ROLES:
            model = parse_model(self._tree, path, name, value, option_names())
            if model.kind == OBJECT_KIND:
                problem = f"{model.name} is an object in Python, which no space can search over: leave it out"
                raise self._tree.error(path, problem)
            return {"model": model.name, **model.options} if model.options else model.name
        if not is_instance_of(int, value) or value < MINIMUM_CHARACTERS[name]:
            minimum = MINIMUM_CHARACTERS[name]
            raise self._tree.error(path, f"{name} must be a whole number of characters from {minimum}, not {value!r}")
        return int(value)

    def _options(self, family: str, listed: Any, section: str = "families") -> tuple[Gene, ...]:
        if listed == "all":
            known = get_family(family, "").techniques
            return tuple(make_gene(family, name) for name in sorted(known) if self._is_possible(known[name]))
        path = (section, family)
        self._refuse_if(
            not isinstance(listed, list) or not listed, path, f"{family} must be a list of techniques, or the word all"
        )
        genes: list[Gene] = []
        for i, item in enumerate(listed):
            for gene in self._expand(family, item, (*path, i)):
                self._refuse_if(gene in genes, (*path, i), f"{family} lists {gene} twice")
                if gene.technique.analysis_only:
                    name = gene.technique.name
                    raise self._tree.error(
                        (*path, i),
                        f"{name} reads the gold labels, so no pipeline may contain it: `ragsmith audit` evaluates it",
                    )
                genes.append(gene)
        return tuple(genes)

    def _is_possible(self, technique: Technique) -> bool:
        """Whether ``all`` includes a technique.

        It leaves out techniques that read gold labels, and those whose required predecessors are not listed.
        """
        tree: Any = self._tree.data
        families = tree["families"]

        def has_any(family: str, needed: Sequence[str]) -> bool:
            listed = families.get(family)
            names = (next(iter(item)) if isinstance(item, dict) and item else item for item in listed or ())
            return listed == "all" or (isinstance(listed, list) and any(name in needed for name in names))

        return not technique.analysis_only and all(has_any(*pair) for pair in technique.after.items())

    def _expand(self, family: str, item: Any, path: tuple[Any, ...]) -> Iterator[Gene]:
        where = self._tree.where(*path)
        if isinstance(item, str):
            yield make_gene(family, item, {}, where)
            return
        self._refuse_if(
            not isinstance(item, dict) or len(item) != 1,
            path,
            f"an option is a name or 'name: {{parameters}}', not {item!r}",
        )
        name, listed = next(iter(item.items()))
        self._refuse_if(
            not isinstance(listed, dict), path, f"the parameters of {name} must be 'name: value' pairs, not {listed!r}"
        )
        grid = {key: value if isinstance(value, list) else [value] for key, value in listed.items()}
        for key, values in grid.items():
            self._refuse_if(not values, path, f"{name}: {key} has no values")
        for combination in itertools.product(*grid.values()):
            yield make_gene(family, str(name), dict(zip(grid, combination, strict=True)), where)

    def _constraints(self, listed: Any, options: Sequence[tuple[Gene, ...]]) -> tuple[Constraint, ...]:
        self._refuse_if(
            not isinstance(listed, list),
            ("constraints",),
            "constraints must be a list of 'forbid: {family: technique, ...}'",
        )
        known = {f.name: {g.technique.name for g in genes} for f, genes in zip(FAMILIES, options, strict=True)}
        constraints = []
        for i, item in enumerate(listed):
            path = ("constraints", i)
            self._refuse_if(
                not isinstance(item, dict) or set(item) != {"forbid"} or not isinstance(item["forbid"], dict),
                path,
                "a constraint is 'forbid: {family: technique, ...}'",
            )
            constraint = {}
            for family, names in item["forbid"].items():
                self._refuse_if(
                    family not in known, path, f"unknown family {family!r}: {did_you_mean(str(family), known)}"
                )
                listed_names = names if isinstance(names, list) else [names]
                self._refuse_if(
                    not listed_names or not all(isinstance(name, str) for name in listed_names),
                    path,
                    f"forbid {family} by the name of a technique, or a list of names",
                )
                banned = frozenset(listed_names)
                unknown = sorted(banned - known[family])
                self._refuse_if(unknown, path, f"{family} has no option {', '.join(unknown)} in this space")
                constraint[family] = banned
            self._refuse_if(
                len(constraint) < 2,
                path,
                "a constraint names at least two families; to drop one option, do not list it",
            )
            constraints.append(constraint)
        return tuple(constraints)

    def _technique_constraints(self, options: Sequence[tuple[Gene, ...]]) -> Iterator[Constraint]:
        """Yield the constraints of techniques that only work after certain techniques of another family."""
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
                    raise self._tree.error(
                        ("families", family), f"{name} needs {other} {listed}, which the space lacks"
                    )
                if others := names[other] - set(needed):
                    yield {other: others, family: frozenset({name})}
