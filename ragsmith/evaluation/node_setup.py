"""An experiment on the nodes of a cluster: which models they load, and whether a node fits the search."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ragsmith.digest import program_digest
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.gateway.remote import ModelKey, RemoteModel, is_called_centrally, remote_model
from ragsmith.models.calls import is_chat_model
from ragsmith.models.loading import SharedModels, load_models
from ragsmith.models.registry import OBJECT_KIND
from ragsmith.models.roles import Models
from ragsmith.models.usage import Meter
from ragsmith.models.vector_stores import APPROXIMATE, resolve_address, serves_one_process
from ragsmith.pipelines.engine import Engine
from ragsmith.plugins import LoadedFiles
from ragsmith.techniques.registry import load_techniques


@dataclass(frozen=True)
class NodeSetup(Experiment):
    """The experiment on a node; ``remote`` has proxies of the models that the driver calls.

    Folders of vectors are relative to ``folder``, the working directory of the driver.
    """

    remote: Mapping[ModelKey, RemoteModel] = field(default_factory=dict, kw_only=True, hash=False)
    folder: Path = field(default=Path(), kw_only=True)

    @cached_property
    def loaded_models(self) -> Models:
        """The models of this node, and proxies of the others."""
        names = self.models
        proxies = {role: self.remote.get((role, names.for_role(role))) for role in names.named_roles}
        given = {role: model for role, model in proxies.items() if model is not None}
        here = replace(names, **{role: f"{OBJECT_KIND}:{model.id}" for role, model in given.items()})
        chunks = self.corpus.chunks
        shared = (self.scored_by or self)._shared
        languages = [chunk.language for chunk in chunks]
        models = load_models(here, [chunk.text for chunk in chunks], given, shared, languages=languages)
        return replace(models, vector_store_address=resolve_address(models.vector_store_address, self.folder))

    @cached_property
    def _shared(self) -> SharedModels:
        """Models shared by all variants, without servers: the driver calls those, and a node lacks their keys."""
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


def collect_remote_models(setup: Experiment, engine: Engine) -> tuple[dict[ModelKey, RemoteModel], dict[ModelKey, Any]]:
    """Return proxies of the models that only this process calls, and the models themselves."""
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
