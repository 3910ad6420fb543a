"""An experiment on the nodes of a cluster: the models and collections of a node, and whether it fits the search."""

import pickle
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragsmith.digest import program_digest
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.threads import Part
from ragsmith.gateway.remote import ModelKey, RemoteModel, divide_slots, is_called_centrally, remote_model
from ragsmith.index.parts import ENTRIES, IndexPart, list_parts, pack_part, unpack_part
from ragsmith.models.calls import is_chat_model
from ragsmith.models.loading import SharedModels, load_models, server_for
from ragsmith.models.names import ModelName
from ragsmith.models.registry import OBJECT_KIND
from ragsmith.models.roles import Models
from ragsmith.models.usage import Meter
from ragsmith.models.vector_stores import APPROXIMATE, resolve_address, serves_one_process
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.plugins import LoadedFiles
from ragsmith.techniques.registry import load_techniques

CONNECT_SECONDS = 5.0
"""Timeout in seconds of the connection by which a node finds out whether it reaches a server."""
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class NodeSetup(Experiment):
    """The experiment on a node; ``remote`` has proxies of the models whose calls the driver makes or records.

    Folders of vectors are relative to ``folder``, the working directory of the driver.
    """

    remote: Mapping[ModelKey, RemoteModel] = field(default_factory=dict, kw_only=True, hash=False)
    folder: Path = field(default=Path(), kw_only=True)

    @cached_property
    def loaded_models(self) -> Models:
        """The models of this node, and proxies of the others."""
        names = self.models
        named = {role: names.for_role(role) for role in names.named_roles}
        proxies = {role: model for role, name in named.items() if (model := self.remote.get((role, name)))}
        given = {role: model for role, model in proxies.items() if not can_send(named[role], role, model)}
        here: dict[str, Any] = {role: f"{OBJECT_KIND}:{model.id}" for role, model in given.items()}
        for role in proxies.keys() - given.keys():
            here[role] = named[role].with_options(base_url=proxies[role].address, in_flight=proxies[role].slots)
        chunks = self.corpus.chunks
        shared = (self.scored_by or self)._shared
        languages = [chunk.language for chunk in chunks]
        models = load_models(
            replace(names, **here), [chunk.text for chunk in chunks], given, shared, languages=languages
        )
        return replace(models, vector_store_address=resolve_address(models.vector_store_address, self.folder))

    @cached_property
    def _shared(self) -> SharedModels:
        """Models shared by all variants, without the limits of servers, which are those of the proxies."""
        return SharedModels()


def check_vectors(setup: Experiment, address: str) -> None:
    """Check that the nodes of the cluster at ``address``, "" for one on this machine, can search the vectors.

    Raises:
        UsageError: the vectors are in a folder that only this process, or only this machine, can read.
    """
    for variant in setup.variants:
        at = variant.models.vector_store_address
        if serves_one_process(at):
            raise UsageError(
                "vectors in a folder can be searched by one process alone: leave --engine out, or give "
                "--vector-store the address of a server"
            )
        if at == APPROXIMATE and address:
            raise WrongOption(
                "vector_store",
                f"is {APPROXIMATE}, whose folder is in this user's home, and the cluster may have other machines:"
                f" give {APPROXIMATE}:FOLDER, one that all nodes share under the same path",
            )


def can_send(name: ModelName, role: str, model: RemoteModel) -> bool:
    """Whether this process may send the requests to ``model`` itself: it has the key, and reaches the server."""
    if not model.slots:
        return False
    url = urlsplit(model.address)
    try:
        has_key = bool(server_for(name.with_options(base_url=model.address), role).key)
        socket.create_connection((url.hostname or "", url.port or PORTS[url.scheme]), CONNECT_SECONDS).close()
    except (OSError, UsageError):
        return False
    return has_key == model.needs_key


def collect_remote_models(
    setup: Experiment, engine: Engine, processes: int = 0
) -> tuple[dict[ModelKey, RemoteModel], dict[ModelKey, Any]]:
    """Return proxies of the models whose calls this process makes or records, and the models themselves.

    With several ``processes``, each may send the requests to a served model within its share of the limits.
    """
    remote: dict[ModelKey, RemoteModel] = {}
    models: dict[ModelKey, Any] = {}
    for variant in setup.variants:
        names, loaded = variant.models, variant.loaded_models
        for role in names.named_roles:
            name, model = names.for_role(role), getattr(loaded, role)
            if not is_called_centrally(model, is_object=name.kind == OBJECT_KIND):
                continue
            if is_chat_model(model):
                engine.gateway.language_model(model, Meter())  # informs the model of its learned capabilities
            models[role, name] = model
            remote[role, name] = remote_model(model, (role, name))
            if processes and (slots := divide_slots(engine.gateway, model, processes)):
                server = server_for(name, role)
                proxy = remote[role, name]
                proxy.slots, proxy.address, proxy.needs_key = slots, server.base_url, bool(server.key)
    return remote, models


def pack_setup(setup: Experiment, remote: Mapping[ModelKey, RemoteModel]) -> bytes:
    """Return the pickled state of a new actor: identities of program and models, user files, and the experiment."""
    values = {item.name: getattr(setup, item.name) for item in fields(Experiment)}
    node_setup = NodeSetup(**{**values, "given": {}}, remote=remote, folder=Path.cwd())
    return pickle.dumps((program_digest(), setup.model_ids, pickle.dumps(LoadedFiles()), pickle.dumps(node_setup)))


def unpack_setup(packed: bytes) -> Experiment:
    """Return the experiment of `pack_setup` on this node, whose program and models must be those of the search.

    Raises:
        UsageError: the program, a user file or a model differs or is missing; the message follows the node's name.
    """
    load_techniques()
    made_by, model_ids, files, experiment = pickle.loads(packed)
    if made_by != program_digest():  # checked first, because another version may fail to read the rest
        raise UsageError(
            "has another version of ragsmith, of Python or of what they need: install the same there as here"
        )
    try:
        pickle.loads(files)  # the experiment may use classes of user files
        setup: Experiment = pickle.loads(experiment)
        found = setup.model_ids
    except UsageError as error:
        raise UsageError(f"lacks something: {error}; put it there, under the same path") from error
    if found != model_ids:
        raise UsageError("has other models under the same names: put the same there as here")
    return setup


StoredReference = Sequence[Any]
"""A reference to the object store, in a list so that Ray does not fetch it early."""
StoredName = tuple[str, str, IndexPart]
"""Name of an object in the store: its engine, its gene if any, and the part of the index, or `GRAPH`."""
GRAPH: IndexPart = "graph", ""


@dataclass(frozen=True, slots=True)
class ActorBatch:
    """Common data of several jobs; ``candidates`` are pickled, as user files must be loaded before they are read.

    ``collections`` has, for each candidate, the names in ``stored`` of the parts of its index and of its entity graph,
    if it has one. ``packed`` has the initial state of an actor. Failures by trouble of a provider were ``forgotten`` so
    many times.
    """

    number: int
    forgotten: int
    packed: StoredReference
    candidates: bytes
    collections: tuple[tuple[StoredName, ...], ...]
    stored: Mapping[StoredName, StoredReference]
    part: Part


def pack_collection(engine: Engine, candidate: Candidate) -> dict[StoredName, Callable[[], Any]]:
    """Return functions that pack the parts of the index of ``candidate`` and its entity graph, which are built."""
    index, graph = engine.prepare(candidate)
    packed: dict[StoredName, Callable[[], Any]] = {
        (str(id(engine)), candidate[0].identity, part): partial(pack_part, index, part) for part in list_parts(index)
    }
    if graph is not None:
        packed[str(id(engine)), "", GRAPH] = lambda: graph
    return packed


def install_part(engine: Engine, candidate: Candidate, part: IndexPart, packed: Any) -> None:
    """Install a part of the index of ``candidate``, or its entity graph, in the engine of a node.

    Raises:
        UsageError: the index cannot be opened here.
    """
    if part == GRAPH:
        engine.install_graph(packed)
    else:
        index = None if part == ENTRIES else engine.index(candidate[0])
        engine.install_index(candidate[0], unpack_part(index, part, packed))
