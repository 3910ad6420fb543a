"""A document kind says which files belong to it, how they become text, and what sort of text that is.

Everything downstream sees the text alone: offsets of evidence and chunks are places in it, whatever the file was.
"""

from ragsmith.datasets.document_types.document_types import (
    KINDS,
    MAX_BYTES,
    DocumentKind,
    Loaded,
    kind_of,
    kinds_in_words,
)

__all__ = ["KINDS", "MAX_BYTES", "DocumentKind", "Loaded", "kind_of", "kinds_in_words"]
