"""Questions that require two documents, about passages linked by a name, a reference or a heading."""

from collections.abc import Sequence

from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.registry import drafting_method
from ragsmith.labelling.drafting.replies import MATERIAL, WORDING, DraftReply, items_in, list_of, text_of
from ragsmith.models.tasks import ReplyForm
from ragsmith.types import Chunk

PROMPT = f"""{{>texts}}

The texts are from {{title}}.
{MATERIAL}

Write questions that take both of these texts, which are of different documents: each has a part of the answer, and
neither has all of it.

{WORDING}

Reply with JSON and nothing else, in this form:
{{"questions": [{{"question": "...", "answer": "...", "quotes": [{{"text": 1, "words": "..."}}, {{"text": 2, "words": "..."}}]}}]}}
"words" are those of the text with that number that show a part of the answer, each a clause or a sentence, copied
character by character; both texts have to be quoted. If the texts allow no such question, reply
{{"questions": []}}
"""  # noqa: E501  the form is one line, like a reply


def parse(reply: str) -> tuple[DraftReply, ...]:
    """Parse questions that quote both texts.

    Raises:
        ValueError: the reply has another form.
    """
    found = []
    for item in items_in(reply, ("question", "answer", "quotes")):
        quotes = tuple(_quote(entry) for entry in list_of(item, "quotes"))
        if {number for number, _ in quotes} != {1, 2}:
            raise ValueError("a question does not quote both texts")
        found.append(DraftReply(text_of(item["question"], "question"), text_of(item["answer"], "answer"), quotes))
    return tuple(found)


def _quote(entry: object) -> tuple[int, str]:
    if not isinstance(entry, dict) or entry.keys() != {"text", "words"}:
        raise ValueError("a quote must be an object with the keys text and words, and no others")
    number = entry["text"]
    if type(number) is not int or number not in (1, 2):
        raise ValueError(f"a quote is from text {number!r}; expected 1 or 2")
    return number, text_of(entry["words"], "a quote", exact=True)


@drafting_method(
    type="multi_document",
    prompt=PROMPT,
    parse=parse,
    form=ReplyForm(
        "linked_drafts",
        {"questions": [{"question": str, "answer": str, "quotes": [{"text": (1, 2), "words": str}]}]},
        None,
    ),
    max_tokens=768,
    paper="https://arxiv.org/abs/2401.15391",
)
def multi_document(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask questions that require two documents, about passages linked by a name, a reference or a heading."""
    other = links.find(passage)
    return () if other is None else (passage, other)
