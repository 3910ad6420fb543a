"""The languages of documents: as ``dataset.yaml`` says, or as their texts do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragsmith.text.languages import ENGLISH, LANGUAGES, UNKNOWN, detect, language_code
from ragsmith.types import Document

SHORT = 300
"""Characters; a text of fewer may hold as many words of a foreign title as of its own language."""

NEARLY_ALL = 0.9
"""Of a collection that is in one language to such a share, no short document is taken to be in another."""


def assign_languages(
    documents: Sequence[Document], language: str | None = None, said: Mapping[str, str] | None = None
) -> tuple[tuple[Document, ...], str]:
    """Return ``documents`` with their languages, and the language that most of them are in.

    ``said`` names the languages of some documents, ``language`` that of all others. Without it each is in the language
    that its text tells (`detect`); what tells none, such as a table, is in that of most, or in English.
    """
    said = said or {}
    code = language_code(language) if language else None
    if code:
        return tuple([replace(document, language=said.get(document.id, code)) for document in documents]), code
    found = {document.id: said.get(document.id) or detect(document.text) for document in documents}
    counts = Counter(told for told in found.values() if told != UNKNOWN)
    most = max(counts, key=lambda told: (counts[told], told == ENGLISH, told), default=ENGLISH)
    nearly_all = counts[most] >= NEARLY_ALL * counts.total()

    def of(document: Document) -> str:
        told = found[document.id]
        doubtful = nearly_all and len(document.text) < SHORT and _script(told) == _script(most)
        return most if told == UNKNOWN or (doubtful and document.id not in said) else told

    return tuple([replace(document, language=of(document)) for document in documents]), most


def _script(language: str) -> str:
    known = LANGUAGES.get(language)
    return known.script if known else ""
