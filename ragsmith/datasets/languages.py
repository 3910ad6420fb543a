"""Assign languages to documents, from ``dataset.yaml`` or by detection."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragsmith.text.languages import ENGLISH, LANGUAGES, UNKNOWN, detect_language, language_code
from ragsmith.types import Document

MIN_RELIABLE_CHARACTERS = 300
"""Minimum length of a text for reliable detection, in characters: in a shorter text a foreign title may dominate."""

DOMINANT_SHARE = 0.9
"""Minimum share of the most frequent language for assigning that language to short documents."""


def assign_languages(
    documents: Sequence[Document], language: str | None = None, known: Mapping[str, str] | None = None
) -> tuple[tuple[Document, ...], str]:
    """Return ``documents`` with their languages, and the most frequent language.

    ``known`` maps some documents to their language; ``language`` is that of all others. Without ``language``, languages
    are detected; documents without a detectable language, such as tables, get the most frequent one, or English.
    """
    known = known or {}
    code = language_code(language) if language else None
    if code:
        return tuple([replace(document, language=known.get(document.id, code)) for document in documents]), code
    detected_by_id = {document.id: known.get(document.id) or detect_language(document.text) for document in documents}
    counts = Counter(detected for detected in detected_by_id.values() if detected != UNKNOWN)
    dominant = max(counts, key=lambda code: (counts[code], code == ENGLISH, code), default=ENGLISH)
    is_dominant = counts[dominant] >= DOMINANT_SHARE * counts.total()

    def language_of(document: Document) -> str:
        detected = detected_by_id[document.id]
        uncertain = (
            is_dominant and len(document.text) < MIN_RELIABLE_CHARACTERS and _script(detected) == _script(dominant)
        )
        return dominant if detected == UNKNOWN or (uncertain and document.id not in known) else detected

    return tuple([replace(document, language=language_of(document)) for document in documents]), dominant


def _script(language: str) -> str:
    entry = LANGUAGES.get(language)
    return entry.script if entry else ""
