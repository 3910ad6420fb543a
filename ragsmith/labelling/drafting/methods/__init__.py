"""A method makes drafts of a passage, with what it needs to know of all documents; those of `METHODS` ask no model.

Each is a function in a file of its own. A method that asks a model is a function, too, which was bound to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.circumstances import circumstances
from ragsmith.labelling.drafting.methods.code import code
from ragsmith.labelling.drafting.methods.compounds import compounds
from ragsmith.labelling.drafting.methods.conditions import conditions
from ragsmith.labelling.drafting.methods.cross_references import cross_references
from ragsmith.labelling.drafting.methods.definitions import definitions
from ragsmith.labelling.drafting.methods.enumerations import enumerations
from ragsmith.labelling.drafting.methods.headings import headings
from ragsmith.labelling.drafting.methods.near_misses import near_misses
from ragsmith.labelling.drafting.methods.objects import objects
from ragsmith.labelling.drafting.methods.subjects import subjects
from ragsmith.labelling.drafting.methods.tables import tables
from ragsmith.types import Chunk

Method = Callable[[Chunk, Material], Sequence[Draft]]

METHODS: tuple[Method, ...] = (
    tables,
    code,
    cross_references,
    compounds,
    conditions,
    circumstances,
    definitions,
    enumerations,
    objects,
    headings,
    subjects,
    near_misses,
)
"""The methods without a model, in the order in which they are asked: what fewer passages have comes first."""
