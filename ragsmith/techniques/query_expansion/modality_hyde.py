"""Modality-aware HyDE: search also with hypothetical answers as prose, code and a table (Singh et al.)."""

import re
from collections.abc import Iterable, Iterator

from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import OfflineModel, Task, clean_reply, parse_search_text
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import best_per_chunk, combmax, reciprocal_rank_fusion, search_and_fuse
from ragsmith.techniques.query_expansion.hyde import IMAGINE_PASSAGE
from ragsmith.text.words import content_words, words
from ragsmith.types import Hits, Question, Rankings, Scale, Search

N_FEEDBACK_CHUNKS = 10
"""Number of feedback chunks in which code or rows are searched."""

MAX_COPIED_LINES = 4
"""Maximum number of lines of code, or rows, that an offline hypothesis copies."""

N_FEEDBACK_TERMS = 6
"""Number of feedback terms in a hypothesis if the corpus has no code, or no table, on the question."""


_NONE = re.compile(
    r"\W*none(?:\W*|\W*[.:;,(–—\n][^|]*|\s+-\s[^|]*)"
    r"|no (?:\w+ )?(?:code|snippet|table|rows?)\b[^|\n]{0,60}\b(?:can|could|would|answers?)\b[^|]*",
    re.IGNORECASE,
)
_CELLS_WITHOUT_BARS = re.compile(r"[^|]*\w\s*[:,;]\s*\S[^|]*(?<![.!?:])\s*")  # not a sentence
_BLOCK = re.compile(r"(?:```|~~~)[\w+#-]*[ \t]*\n(.*?)(?:\n[ \t]*(?:```|~~~)|\Z)", re.DOTALL)


def parse_hypothesis(reply: str, label: str) -> str:
    """Parse a hypothetical text; "" if the model replies ``none``, as it may if the modality does not suit the
    question.

    Raises:
        ValueError: the reply is blank or a refusal.
    """
    return "" if _NONE.fullmatch(clean_reply(reply, label)) else parse_search_text(reply, label)


def parse_code(reply: str) -> str:
    """Parse a snippet like `parse_hypothesis`; of a reply with fenced blocks, only their contents."""
    text = parse_hypothesis(reply, "code|snippet")
    return "\n\n".join(filter(str.strip, _BLOCK.findall(text))) or text


def parse_rows(reply: str) -> str:
    """Parse rows like `parse_hypothesis`, without remarks around them.

    Raises:
        ValueError: as for `parse_hypothesis`, or no line has the cells of a table.
    """
    text = parse_hypothesis(reply, "table|rows?")
    rows = "\n".join(line for line in text.splitlines() if "|" in line or "\t" in line)
    if any(map(str.isalnum, rows)):
        return rows
    if not all(map(_CELLS_WITHOUT_BARS.fullmatch, filter(str.strip, text.splitlines()))):
        raise ValueError(f"the reply has no row of a table: {reply.strip()[:100]!r}")
    return text


# --- code ------------------------------------------------------------------------------------------------------------

_CODE_LINE = re.compile(
    r"^\s*(?:def |class |import |from \w+ import|return\b|func(?:tion)? |public |private |static |const |let |var "
    r"|#include|SELECT |INSERT |\$ |[\w.]+\s*(?:[+*/-]?=|:=)\s*\S|[\w.]+\([^)]*\)[;:{]?\s*$)|[;{]\s*$|=>|::"
)
_IDENTIFIER = re.compile(r"\b[A-Za-z]\w*(?:_\w+|[a-z0-9][A-Z]\w*)\b|\b[A-Za-z]\w+(?=\()")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")


def imagine_code_offline(model: OfflineModel, *, sample: int, question: str) -> str:
    """Compose a snippet from the code in the feedback: the lines most similar to the question, and their identifiers.

    Identifiers are also split into words, by which code is matched with natural language (Caprile and Tonella 1999). If
    the feedback has no code, a function named by the question's words calls the terms of pseudo-relevance feedback.
    """
    content = [word for word in content_words(question) if word.isidentifier()]
    lines = tuple(dict.fromkeys(_extract_code_lines(model.feedback(question, N_FEEDBACK_CHUNKS))))
    chosen = [lines[i] for i in sorted(model.select(question, tuple(map(_split_identifiers, lines)), MAX_COPIED_LINES))]
    names = dict.fromkeys(name for line in chosen for name in _IDENTIFIER.findall(line))
    if chosen:
        return "\n".join([f"# {' '.join([*content, *map(_split_identifiers, names)])}", *chosen])
    added = [word.lower() for word in model.expansion_terms(question, N_FEEDBACK_TERMS)]
    if not content:
        return ""
    call = f"{'_'.join(added[:2])}({', '.join(added[2:])})" if added else content[-1]
    head = f"def {'_'.join(content[:3])}({', '.join(content[3:])}):"
    return "\n".join([f"# {' '.join([*content, *added])}", head, f"    return {call}"])


def _extract_code_lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the texts in which at least half of the lines look like code."""
    for text in texts:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if 2 * sum(_CODE_LINE.search(line) is not None for line in lines) >= len(lines) > 1:
            yield from lines


def _split_identifiers(line: str) -> str:
    """Return ``read file path name`` for ``readFile(path_name)``."""
    return " ".join(words(_HUMP.sub(" ", line)))


IMAGINE_CODE = Task(
    name="imagine_code",
    prompt=(
        "Question: {question}\n\n"
        "Write a short snippet of source code, configuration or commands, as it might stand in documentation, that "
        "would answer this question. Use the names that such code would use. Whether it runs does not matter: it "
        "serves to find real code. Reply with the code alone, or with the one word NONE if no code could answer."
    ),
    parse=parse_code,
    offline=imagine_code_offline,
    max_tokens=256,
)


# --- tables ----------------------------------------------------------------------------------------------------------

_CELLS = re.compile(r"\s*(?:\||\t)\s*")
_RULE = re.compile(r"[\s|:+=-]+")
_FIGURE = re.compile(r"\b\d[\d.,]*\d\b|\b\d\b")


def imagine_table_offline(model: OfflineModel, *, sample: int, question: str) -> str:
    """Compose rows as ``column: value`` from the tables in the feedback, those most similar to the question.

    Cells are paired with the header of their column, as usual for the search of tables (Chen et al. 2020). If the
    feedback has no table, the question's words are the columns, and the terms and numbers of the feedback the values.
    """
    feedback = model.feedback(question, N_FEEDBACK_CHUNKS)
    rows = tuple(dict.fromkeys(row for text in feedback for row in _extract_rows(text)))
    if rows:
        return "\n".join(rows[i] for i in model.select(question, rows, MAX_COPIED_LINES))
    content = content_words(question)
    figures = dict.fromkeys(figure for text in feedback[:1] for figure in _FIGURE.findall(text))
    values = [*model.expansion_terms(question, N_FEEDBACK_TERMS), *list(figures)[:2]]
    cells = [f"{name}: {value}" for name, value in zip(content, values, strict=False)]
    return " | ".join([*cells, *content[len(cells) :], *values[len(cells) :]])


def _extract_rows(text: str) -> Iterator[str]:
    """Yield the rows of a Markdown or tab-separated table in ``text``, each cell with its header."""
    header: list[str] = []
    for line in text.splitlines():
        cells = _CELLS.split(line.strip().strip("|").strip())
        if len(cells) < 2:
            header = []
        elif not header:
            header = cells
        elif not _RULE.fullmatch(line):
            yield " | ".join(f"{name}: {cell}".lstrip(": ") for name, cell in zip(header, cells, strict=False) if cell)


IMAGINE_TABLE = Task(
    name="imagine_table",
    prompt=(
        "Question: {question}\n\n"
        "Write the header and two or three rows of a table, as it might stand in a report, that would answer this "
        "question. Write each row on a line, as 'column: value | column: value'. Use the column names and units that "
        "such a table would use. Whether the values are true does not matter: the rows serve to find real ones. Reply "
        "with the rows alone, or with the one word NONE if no table could answer."
    ),
    parse=parse_rows,
    offline=imagine_table_offline,
    max_tokens=256,
)


# --- search ----------------------------------------------------------------------------------------------------------


def search_hypotheses(question: str, hypotheses: Iterable[str], search: Search, fusion: str) -> Hits:
    """Search with the question and each non-empty hypothesis, and fuse the rankings.

    ``max`` takes each chunk's best score if all are cosines; scores of other scales, which depend on the length of the
    query, are normalised within their lists.
    """

    def fuse(rankings: Rankings) -> Hits:
        hits = [hit for ranking in rankings for hit in ranking]
        if fusion == "rrf":
            return reciprocal_rank_fusion(rankings)
        return best_per_chunk(hits) if {hit.scale for hit in hits} == {Scale.COSINE} else combmax(rankings)

    return search_and_fuse(search, [question, *filter(None, hypotheses)], fuse)


@query_expansion(paper="https://arxiv.org/abs/2212.10496", choices={"fusion": ("rrf", "max")})
def modality_hyde(
    question: Question, search: Search, *, language_model: LanguageModel, fusion: str = "rrf", depth: Count = 20
) -> Hits:
    """Search with the question and with hypothetical answers as prose, code and a table, and fuse the rankings.

    Helps when a corpus mixes prose with code and tables, which words of prose do not find. Costs 3 calls and at most 4
    searches; a hypothesis is omitted if the model replies that its modality cannot answer.

    Differences from the paper: it takes the best score of a chunk over the searches (``max``) on any scale. Scores of
    different queries are comparable only if they are cosines; on other scales ``max`` compares scores normalised within
    their lists. The default is reciprocal rank fusion: with ``max`` the hypotheses, which are longer than the question,
    outvote it, which on the bundled questions is worse than a search with the question alone. In the study's own
    numbers the method is below HyDE with the question and below its control, `multi_prose`: compare it with both.
    """
    hypotheses = [
        language_model.run(task, question=question.text) for task in (IMAGINE_PASSAGE, IMAGINE_CODE, IMAGINE_TABLE)
    ]
    return search_hypotheses(question.text, hypotheses, search, fusion)[:depth]
