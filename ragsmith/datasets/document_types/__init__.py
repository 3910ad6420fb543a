"""Document types: their files, how these are converted to text, and the modality of the text.

Offsets of evidence and chunks refer to the converted text.
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
