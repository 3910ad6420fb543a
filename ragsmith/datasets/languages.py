"""Assign languages to documents, from ``dataset.yaml`` or by detection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragsmith.text.languages import ENGLISH, LANGUAGES, UNKNOWN, detect, language_code
from ragsmith.types import Document

SHORT = 300
"""Characters below which detection is unreliable, as a foreign title may dominate."""

NEARLY_ALL = 0.9
"""Share of documents in one language from which short documents are assigned that language."""


def assign_languages(
    documents: Sequence[Document], language: str | None = None, said: Mapping[str, str] | None = None
) -> tuple[tuple[Document, ...], str]:
    """Return ``documents`` with their languages, and the most frequent language.

    ``said`` has the languages of some documents, ``language`` that of all others. Without it languages are detected;
    documents without a detectable language, such as tables, get the most frequent one, or English.
    """
    said = said or {}
    code = language_code(language) if language else None
    if code:
        return tuple([replace(document, language=said.get(document.id, code)) for document in documents]), code
    found = {document.id: said.get(document.id) or detect(document.text) for document in documents}
    counts = Counter(detected for detected in found.values() if detected != UNKNOWN)
    most = max(counts, key=lambda code: (counts[code], code == ENGLISH, code), default=ENGLISH)
    nearly_all = counts[most] >= NEARLY_ALL * counts.total()

    def language_of(document: Document) -> str:
        detected = found[document.id]
        uncertain = nearly_all and len(document.text) < SHORT and _script(detected) == _script(most)
        return most if detected == UNKNOWN or (uncertain and document.id not in said) else detected

    return tuple([replace(document, language=language_of(document)) for document in documents]), most


def _script(language: str) -> str:
    known = LANGUAGES.get(language)
    return known.script if known else ""
