"""An experiment on the nodes of a cluster: what they can search, and whether a node fits the search."""

import pickle
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

from ragsmith.digest import program_digest
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.models.calls import is_costly
from ragsmith.models.registry import OBJECT_KIND, ROLE_LABELS
from ragsmith.models.roles import Models
from ragsmith.models.vector_stores import APPROXIMATE, resolve_address, serves_one_process
from ragsmith.plugins import LoadedFiles
from ragsmith.techniques.registry import load_techniques


@dataclass(frozen=True)
class NodeSetup(Experiment):
    """The experiment on a node, where folders of vectors are relative to ``folder``, the driver's working directory."""

    folder: Path = field(default=Path(), kw_only=True)

    @cached_property
    def loaded_models(self) -> Models:
        """The models of this node."""
        models = super().loaded_models
        return replace(models, vector_store_address=resolve_address(models.vector_store_address, self.folder))


def check_nodes(setup: Experiment, engine: str, address: str) -> None:
    """Check that the cluster at ``address``, "" for one on this machine, can evaluate the pipelines of a search.

    Raises:
        UsageError: this process alone can call a system, code or a model, or read the vectors.
    """
    if setup.system:
        raise WrongOption("engine", f"is {engine}, and another system is asked from this process: leave it out")
    if setup.uses_cells:
        problem = f"is {engine}, and a cluster cannot import techniques and measures of cells: put them in files"
        raise WrongOption("engine", problem)
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
    for variant in setup.variants:
        for role in variant.models.named_roles:
            name, model = variant.models.for_role(role), getattr(variant.loaded_models, role)
            if model is not None and (name.kind == OBJECT_KIND or is_costly(model)):
                hint = ", and set more requests in flight" if hasattr(model, "provider") else ""
                raise WrongOption(
                    "engine",
                    f"is {engine}, and the {ROLE_LABELS[role]} {name.name} is called by one process, which a cluster "
                    f"does not accelerate: leave the engine out{hint}",
                )


def pack_setup(setup: Experiment) -> bytes:
    """Return the pickled state of a new actor: identities of program and models, user files, and the experiment."""
    values = {item.name: getattr(setup, item.name) for item in fields(Experiment)}
    node_setup = NodeSetup(**values, folder=Path.cwd())
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
