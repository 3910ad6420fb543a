"""A method makes drafts of a passage, with what it needs to know of all documents; those of `METHODS` ask no model.

Each is a function in a file of its own. A method that asks a model is a function, too, which was bound to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.definitions import definitions
from ragsmith.types import Chunk

Method = Callable[[Chunk, Material], Sequence[Draft]]

METHODS: tuple[Method, ...] = (definitions,)
"""The methods without a model, in the order in which they are asked."""
