"""Languages: codes, language detection, stop words and stemming.

A language is its ISO 639-1 code (``de``). Stems are those of the Snowball stemmers (Porter 2001) in PyStemmer; words of
other languages are not stemmed.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import Stemmer

from ragsmith.caches import bounded_cache
from ragsmith.text.data_files import read_data
from ragsmith.text.scripts import count_scripts, split_words

ENGLISH = "en"
UNKNOWN = "und"
"""The code of BCP 47 for an undetermined language."""
STOP_WORDS_DIGEST = "3a28f552b8b0646f"
"""Digest of the file of stop words."""


@dataclass(frozen=True, slots=True)
class Language:
    """The names, the stemmer and the script of a language; empty if there is none."""

    name: str
    codes: str = ""
    stemmer: str = ""
    script: str = "latin"


LANGUAGES: Mapping[str, Language] = {
    "am": Language("Amharic", "amh", "", "ethiopic"),
    "ar": Language("Arabic", "ara", "arabic", "arabic"),
    "bg": Language("Bulgarian", "bul", "", "cyrillic"),
    "bn": Language("Bengali", "ben", "", "bengali"),
    "bo": Language("Tibetan", "bod tib", "", "tibetan"),
    "ca": Language("Catalan", "cat", "catalan"),
    "cs": Language("Czech", "ces cze", "czech"),
    "da": Language("Danish", "dan", "danish"),
    "de": Language("German", "deu ger", "german"),
    "el": Language("Greek", "ell gre", "greek", "greek"),
    "en": Language("English", "eng", "english"),
    "es": Language("Spanish", "spa", "spanish"),
    "et": Language("Estonian", "est", "estonian"),
    "eu": Language("Basque", "eus baq", "basque"),
    "fa": Language("Persian", "fas per", "persian", "arabic"),
    "fi": Language("Finnish", "fin", "finnish"),
    "fr": Language("French", "fra fre", "french"),
    "ga": Language("Irish", "gle", "irish"),
    "gu": Language("Gujarati", "guj", "", "gujarati"),
    "he": Language("Hebrew", "heb", "", "hebrew"),
    "hi": Language("Hindi", "hin", "hindi", "devanagari"),
    "hu": Language("Hungarian", "hun", "hungarian"),
    "hy": Language("Armenian", "hye arm", "armenian", "armenian"),
    "id": Language("Indonesian", "ind", "indonesian"),
    "it": Language("Italian", "ita", "italian"),
    "ja": Language("Japanese", "jpn", "", "kana"),
    "ka": Language("Georgian", "kat geo", "", "georgian"),
    "km": Language("Khmer", "khm", "", "khmer"),
    "kn": Language("Kannada", "kan", "", "kannada"),
    "ko": Language("Korean", "kor", "", "hangul"),
    "lo": Language("Lao", "lao", "", "lao"),
    "lt": Language("Lithuanian", "lit", "lithuanian"),
    "ml": Language("Malayalam", "mal", "", "malayalam"),
    "mr": Language("Marathi", "mar", "", "devanagari"),
    "my": Language("Burmese", "mya bur", "", "burmese"),
    "ne": Language("Nepali", "nep", "nepali", "devanagari"),
    "nl": Language("Dutch", "nld dut", "dutch"),
    "no": Language("Norwegian", "nor nb nob nn nno", "norwegian"),
    "or": Language("Odia", "ori", "", "odia"),
    "pa": Language("Punjabi", "pan", "", "gurmukhi"),
    "pl": Language("Polish", "pol", "polish"),
    "pt": Language("Portuguese", "por", "portuguese"),
    "ro": Language("Romanian", "ron rum", "romanian"),
    "ru": Language("Russian", "rus", "russian", "cyrillic"),
    "si": Language("Sinhala", "sin", "", "sinhala"),
    "sk": Language("Slovak", "slk slo", ""),
    "sr": Language("Serbian", "srp", "serbian", "cyrillic"),
    "sv": Language("Swedish", "swe", "swedish"),
    "ta": Language("Tamil", "tam", "tamil", "tamil"),
    "te": Language("Telugu", "tel", "", "telugu"),
    "th": Language("Thai", "tha", "", "thai"),
    "tr": Language("Turkish", "tur", "turkish"),
    "uk": Language("Ukrainian", "ukr", "", "cyrillic"),
    "ur": Language("Urdu", "urd", "", "arabic"),
    "vi": Language("Vietnamese", "vie", ""),
    "yi": Language("Yiddish", "yid", "yiddish", "hebrew"),
    "zh": Language("Chinese", "zho chi", "", "han"),
}
"""The known languages by code; other codes of two or three letters are accepted as unknown languages."""

_CODES = {name: code for code, known in LANGUAGES.items() for name in (code, known.name.lower(), *known.codes.split())}
_LANGUAGE_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]+)*")


def language_code(name: str) -> str | None:
    """Return the code of a language from a code, possibly with a region (``de-AT``), or an English name; else None."""
    lowered = name.strip().lower()
    tag = _LANGUAGE_TAG.fullmatch(lowered)
    return _CODES.get(lowered) or (_CODES.get(tag[1], tag[1]) if tag else None)


def get_language_name(code: str) -> str:
    """Return the English name of a language, or its code if it is unknown."""
    return LANGUAGES[code].name if code in LANGUAGES else code


# --- which language --------------------------------------------------------------------------------------------------

MAX_READ_CHARACTERS = 5_000
"""Number of characters at the beginning of a text by which its language is detected."""

MIN_FUNCTION_WORD_SHARE = 0.07
"""Minimum share of function words in running text, each weighted by 1 / number of languages that have it. The share is
0.2 to 0.4 in English and rarely below 0.1 in languages with many endings; below the minimum, a text is a table, code,
or in another language."""

_DENSE_SCRIPTS = frozenset({"han", "kana", "hangul"})
"""Scripts in which a character counts as three letters."""

_MIN_KANA_SHARE = 0.05
"""Minimum share of Kana among Han and Kana characters in Japanese."""

_DEFAULT_LANGUAGES = {"arabic": "ar", "devanagari": "hi", "hebrew": "he"}
"""The language of a script with several languages if function words are inconclusive."""


def detect_language(text: str) -> str:
    """Return the ISO 639-1 code of the language of a text, or `UNKNOWN` for code, tables and other languages.

    The language is detected by the script and, among several languages of a script, by function words, from the
    beginning of the text. The result is deterministic.
    """
    text = text[:MAX_READ_CHARACTERS]
    counts = count_scripts(text)
    if not counts:
        return UNKNOWN
    weights = Counter({script: n * (3 if script in _DENSE_SCRIPTS else 1) for script, n in counts.items()})
    east_asian = weights["han"] + weights["kana"]
    weights["kana" if counts["kana"] > _MIN_KANA_SHARE * (counts["han"] + counts["kana"]) else "han"] = east_asian
    script = max(weights, key=lambda name: (weights[name], name))
    return detect_by_words((run.lower() for run in split_words(text)), script)


def detect_by_words(words: Iterable[str], script: str = "latin") -> str:
    """Return the language of running text in ``script`` by its words, in lower case and NFC, or `UNKNOWN`."""
    candidates = [code for code, known in LANGUAGES.items() if known.script == script]
    if len(candidates) == 1:
        return candidates[0]
    counts = Counter(words)
    shares: dict[str, list[float]] = {code: [] for code in candidates}
    languages_by_word = _index_function_words(script)
    for word, times in counts.items():
        if languages := languages_by_word.get(word):
            for code in languages:
                shares[code].append(times / len(languages))
    best = max(candidates, key=lambda code: sum(shares[code]), default="")
    if best and len(shares[best]) > 1 and sum(shares[best]) >= MIN_FUNCTION_WORD_SHARE * counts.total():
        return best
    return _DEFAULT_LANGUAGES.get(script, UNKNOWN)


@cache
def _index_function_words(script: str) -> dict[str, list[str]]:
    """Return the languages by function word, of all languages of a script."""
    languages_by_word: dict[str, list[str]] = {}
    for code, known in LANGUAGES.items():
        for word in stop_words(code) if known.script == script else ():
            languages_by_word.setdefault(word, []).append(code)
    return languages_by_word


# --- what is known of their words ------------------------------------------------------------------------------------


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the function words of a language in normalised form; none if it is unknown."""
    return frozenset(word for listed in _read_stop_words().get(language, "").split() for word in split_words(listed))


@cache
def _read_stop_words() -> dict[str, str]:
    """Return articles, pronouns, prepositions, conjunctions and auxiliaries by language, in lower case and NFC.

    Languages written without spaces also have pairs of characters.
    """
    found: dict[str, str] = json.loads(read_data("ragsmith.text", "stop_words.json", STOP_WORDS_DIGEST))
    return found


@bounded_cache(1 << 16, key="a word and its language")
def stem(word: str, language: str = ENGLISH) -> str:
    """Return the stem of a lower-case word, or the word itself if the language has no stemmer."""
    stemmer = _get_stemmer(language)
    if stemmer is None:
        return word
    found: str = stemmer.stemWord(word)
    return found or word


@cache
def _get_stemmer(language: str) -> Stemmer.Stemmer | None:
    known = LANGUAGES.get(language)
    if known is None or known.stemmer not in Stemmer.algorithms():
        return None
    return Stemmer.Stemmer(known.stemmer, 0)  # without its cache, as that of `stem` is thread-safe


_DOTLESS = str.maketrans("Iİ", "ıi")


def lower_case(word: str, language: str) -> str:
    """Lower-case a word by the rules of its language: in Turkish, I becomes ı and İ becomes i."""
    return (word.translate(_DOTLESS) if language in {"tr", "az"} else word).lower()
