"""Gates of the data: valid spans, no repeated questions, no unmarked copies of evidence, no unnoticed answers."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from ragsmith.datasets.groups import gold_places
from ragsmith.datasets.ingest.near_duplicates import find_near_duplicates, find_versions
from ragsmith.datasets.ingest.repeated_passages import find_repeated_passages
from ragsmith.datasets.label_checks import find_other_numbers, find_possible_answers
from ragsmith.datasets.relevance import count_overlap
from ragsmith.grouping import group_values
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, judged, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import DatasetView
from ragsmith.text.files import shorten
from ragsmith.text.words import normalise_answer, words
from ragsmith.types import Example, Span

MAX_CUT_SHARE = Limit(high=0.05)
MAX_COARSE_SHARE = 0.2


@gate("Does the evidence refer to the intended text?")
def spans(view: DatasetView) -> GateFinding:
    """Fail if a span is outside the text, or if more than 5 % of the spans begin or end inside a word, or are lost.

    Annotators and programs mark whole words. Offsets that were counted in another version of the text (before an edit,
    in bytes, with other line endings) usually point inside words: with words of five letters, two positions in three
    are inside one. A few cut words are deliberate (a unit after its number, a part of a compound); many show that the
    offsets have shifted. Any shift cuts far more than 5 %. Only scripts with capital letters are checked, as others may
    write words without spaces.

    Evidence is lost if it is in headings alone, which are in no chunk: retrieval is not scored on these questions.
    Up to 5 % of them are a warning. So is coarse gold: more than a fifth of the questions have a span of which no chunk
    covers half. So is an answer without a number of its evidence, which has a single other one next to the same word:
    35 days, where the text says 70. None of the 1,194 questions of the bundled data sets with evidence is named.
    """
    found = [(example, span) for example in view.original.examples for span in gold_places(example)]
    if not found:
        return not_judged("no question has evidence, so retrieval cannot be scored: mark the passages that answer")
    lost = [example.id for example in view.dataset.examples if example.evidence and not view.relevant(example)]
    sound = [(example, span) for example in view.dataset.examples for span in gold_places(example)]
    cut = [(example, span) for example, span in sound if _cuts_word(view.documents[span.doc].text, span)]
    offenders = (
        *view.broken,
        *(Offender(one, "all its evidence is in headings, which are in no chunk") for one in lost),
        *(Offender(example.id, _show_cut(view.documents[span.doc].text, span)) for example, span in cut),
    )
    figure = (len(view.broken) + len(cut)) / len(found)
    summary = f"{len(view.broken)} of {len(found)} spans refer to no text, {len(cut)} begin or end inside a word"
    if lost:
        summary += f", and all evidence of {len(lost)} questions is in headings, which are in no chunk"
    different = [*find_other_numbers(view.dataset.examples, view.original.documents)]
    if different:
        summary += f"; {len(different)} answers have another number than their evidence"
    offenders += tuple([Offender(each.id, str(each)) for each in different])
    mark_below = "; ".join([*["mark the text below the headings"][: len(lost)], *map(str, different)])
    moved = bool(view.broken) or not MAX_CUT_SHARE.holds(figure)
    if moved or not MAX_CUT_SHARE.holds(len(lost) / len(view.original.examples)):
        advice = (
            "offsets have moved: find the passages again; `ragsmith dataset validate` reports the position of each text"
            if moved
            else mark_below
        )
        return GateFinding(GateState.FAILED, summary, figure, MAX_CUT_SHARE, advice, offenders)
    coarse = [e.id for e in view.located if view.setup.relevance[e.id].partial]
    if len(coarse) > MAX_COARSE_SHARE * len(view.located):
        summary += f"; {len(coarse)} of {len(view.located)} questions have gold longer than two chunks"
        advice = (
            "any part of long gold counts as found, so recall says less: if only some sentences answer, mark these; "
            "clauses, messages and abstracts that are relevant as a whole are right as they are"
        )
        long = tuple(Offender(one, "has a span that no chunk covers by half") for one in coarse)
        return GateFinding(GateState.WARNING, summary, figure, MAX_CUT_SHARE, advice, (*offenders, *long))
    return judged(
        summary,
        figure,
        MAX_CUT_SHARE,
        mark_below,
        offenders,
        passed=not (lost or different),
        listed=True,
        otherwise=GateState.WARNING,
    )


def _cuts_word(text: str, span: Span) -> bool:
    return any(0 < at < len(text) and _is_cased(text[at - 1]) and _is_cased(text[at]) for at in (span.start, span.end))


def _is_cased(character: str) -> bool:
    return character.lower() != character.upper()


def _show_cut(text: str, span: Span) -> str:
    around = text[max(0, span.start - 12) : span.start], text[span.end : span.end + 12]
    begin, end = text[span.start : span.start + 20], text[max(span.start, span.end - 20) : span.end]
    return " ".join(f"cuts a word of {span.doc!r}: {around[0]}[{begin} ... {end}]{around[1]}".split())


MIN_JACCARD = 0.8
"""Minimum Jaccard coefficient of the words of two questions that are duplicates."""

MAX_REPEATED_SHARE = Limit(high=0.05)


@gate("Is each question asked once?", paper="arXiv 2107.06499")
def duplicates(view: DatasetView) -> GateFinding:
    """Fail if more than 5 % of the questions have the wording of another one with other gold; warn of other repeats.

    No pipeline can tell which of two passages is asked for by the same words: either is a correct answer, and the gold
    of each question is incomplete. Questions asked of each contract, or of each conversation, are of this kind if they
    do not name it.

    Two questions are duplicates if they have the same wording, or if the sets of their words have a Jaccard coefficient
    of at least 0.8 (the threshold of Lee et al. 2022, "Deduplicating training data makes language models better") and
    they share gold, or their answer. Such repeats are in one group, so that intervals and tests count them once;
    but their subject has more weight in means than others.
    """
    examples = view.original.examples
    if not examples:
        return not_judged("there are no questions")
    found = list(_find_repeats(view, examples))
    repeats, ambiguous = [one for one, _ in found], [one for one, apart in found if apart]
    figure = len(repeats) / len(examples)
    summary = f"{len(repeats)} of {len(examples)} questions repeat an earlier one"
    if not MAX_REPEATED_SHARE.holds(share := len(ambiguous) / len(examples)):
        summary += f", {len(ambiguous)} of them in the same words with other evidence"
        advice = "say in the question which document, contract or conversation it is about"
        return judged(summary, share, MAX_REPEATED_SHARE, advice, ambiguous)
    advice = "keep one of each, unless what is asked often is to have more weight"
    return judged(summary, figure, MAX_REPEATED_SHARE, advice, repeats, listed=True, otherwise=GateState.WARNING)


def _find_repeats(view: DatasetView, examples: tuple[Example, ...]) -> Iterator[tuple[Offender, bool]]:
    """Yield each question that repeats an earlier one, with that one, and whether they share neither gold nor answer.

    Only the rarest words of a question are looked up: two sets of n words with a Jaccard coefficient of 0.8 share one
    of the n - 0.8 n + 1 rarest (prefix filtering, Chaudhuri et al. 2006).
    """
    term_sets = [frozenset(view.terms(example.question)) for example in examples]
    count = Counter(term for terms in term_sets for term in terms)
    first: dict[str, Example] = {}
    by_term: defaultdict[str, list[int]] = defaultdict(list)
    for place, (example, terms) in enumerate(zip(examples, term_sets, strict=True)):
        wording = " ".join(example.question.casefold().split())
        rarest = sorted(terms, key=lambda term: (count[term], term))[: len(terms) - ceil(MIN_JACCARD * len(terms)) + 1]
        if wording in first:
            earlier = first[wording]
            yield (
                Offender(example.id, f"has the same wording as {earlier.id}"),
                example.answerable and not _share_gold(example, earlier),
            )
        else:
            near = sorted({other for term in rarest for other in by_term[term]})
            same = (
                o for o in near if _jaccard(terms, term_sets[o]) >= MIN_JACCARD and _share_gold(example, examples[o])
            )
            if (found := next(same, None)) is not None:
                yield Offender(example.id, f"is nearly the same as {examples[found].id}: {example.question}"), False
        first.setdefault(wording, example)
        for term in rarest:
            by_term[term].append(place)


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second) if first or second else 0.0


def _share_gold(one: Example, other: Example) -> bool:
    """Whether two questions share gold, or the answer if either has no gold."""
    if one.evidence and other.evidence:
        return any(count_overlap(a, b) for a in gold_places(one) for b in gold_places(other))
    return bool(one.answer) and normalise_answer(one.answer) == normalise_answer(other.answer)


SHINGLE_SIZE = 5
"""Number of consecutive words in a shingle."""

MIN_WORDS = 8
"""Minimum number of words of a span; shorter ones occur elsewhere by chance."""

MIN_CONTAINMENT = 0.8
"""Minimum share of the shingles of a span in a chunk with a copy of it."""

MAX_COPIED_SHARE = Limit(high=0.05)

Shingle = tuple[str, ...]


@gate(
    "Is every copy of the evidence marked?",
    paper="Zobel (1998), How reliable are the results of large-scale information retrieval experiments?",
)
def copies(view: DatasetView) -> GateFinding:
    """Warn if the evidence of more than 5 % of the questions also occurs in unmarked chunks.

    A pipeline that retrieves an unmarked copy is scored as wrong. That is right where the place matters (the same
    clause of another contract, a quotation in another conversation); else the copy is unjudged relevant text (Zobel
    1998; for sparse labels Arabzadeh et al. 2022), of a kind that can be detected automatically. A chunk has a copy if
    it contains four fifths of the five-word shingles of a span (containment, Broder 1997). At 5 % of the questions,
    copies cause a difference between two pipelines of at most 0.05, reached only if the two retrieve different copies
    for each of these questions.

    Documents that are copies of others, and passages that many documents have, are named without a limit, as they may
    be intended.
    """
    by_span = [
        (example, [found for span in example.evidence if (found := shingles(view.text(span)))])
        for example in view.located
    ]
    compared = [(example, sets) for example, sets in by_span if sets]
    if not compared:
        return not_judged(f"no evidence has {MIN_WORDS} words or more, which a copy needs to differ from chance")
    wanted = {shingle for _, sets in compared for found in sets for shingle in found}
    positions = group_values(
        (shingle, position) for position, chunk in enumerate(view.chunks) for shingle in shingles(chunk.text) & wanted
    )
    offenders = []
    for example, sets in compared:
        relevant = view.relevant(example)
        copied = [c for found in sets for c in _find_copies(found, positions) if view.chunks[c].id not in relevant]
        if copied:
            offenders.append(Offender(example.id, f"its evidence also occurs in {view.chunks[copied[0]].id}"))
    figure = len(offenders) / len(compared)
    summary = f"the evidence of {len(offenders)} of {len(compared)} questions also occurs in an unmarked chunk"
    offenders += (whole := [*_find_document_copies(view)])
    summary += f"; {len(whole)} documents are copies or versions, or share passages with many others" if whole else ""
    advice = (
        "read some: if the copy answers the question too, as an older print or a quoted message does, mark it "
        "(`any` in the evidence) or remove it; if it does not, as the same clause of another contract, nothing is wrong"
    )
    return judged(summary, figure, MAX_COPIED_SHARE, advice, offenders, listed=True, otherwise=GateState.WARNING)


def _find_document_copies(view: DatasetView) -> Iterator[Offender]:
    """Yield the documents that are copies, and the first of those with each passage that many have."""
    texts = {id_: document.text for id_, document in view.documents.items()}
    near = find_near_duplicates(texts)
    copies = {pair.second: f"has {pair.similarity:.0%} of its words in common with {pair.first}" for pair in near[::-1]}
    for first, *others in find_versions(texts):
        copies |= dict.fromkeys(others, f"differs from {first} only in numbers or dates, as an older version does")
    copies |= {dropped: f"has the text of {kept}, and is left out" for dropped, kept in view.original.merged}
    yield from (Offender(doc, why) for doc, why in copies.items())
    for text, docs in find_repeated_passages(view.original.documents, near).items():
        yield Offender(docs[0], f"has, as {len(docs) - 1:,} other documents do, {shorten(text)}")


def shingles(text: str) -> frozenset[Shingle]:
    """Return the five-word shingles of a text; none for a text of fewer than eight words."""
    listed = words(text)
    if len(listed) < MIN_WORDS:
        return frozenset()
    return frozenset(tuple(listed[at : at + SHINGLE_SIZE]) for at in range(len(listed) - SHINGLE_SIZE + 1))


def _find_copies(span: frozenset[Shingle], positions: Mapping[Shingle, list[int]]) -> Sequence[int]:
    """Return the positions of the chunks that contain enough of the shingles of a span."""
    count = Counter(position for shingle in span for position in positions.get(shingle, ()))
    return sorted(position for position, shared in count.items() if shared >= MIN_CONTAINMENT * len(span))


@gate("Are the unanswerable questions without an answer?")
def unanswerable(view: DatasetView) -> GateFinding:
    """Warn if a passage may answer a question that is labelled as unanswerable.

    A document that was added or edited may answer it. Then the label is wrong, and so is the score of each pipeline
    that answers the question well. A passage may answer a question if it is among the five best of BM25 and has all
    its content words, the rule by which drafting refuses unanswerable questions. Of 96 such questions of the bundled
    data sets it names none, but it rarely detects an answer in other words than the question.
    """
    if not (asked := [example for example in view.original.examples if not example.answerable]):
        return not_judged("no question is labelled as unanswerable")
    found = list(find_possible_answers(asked, view.original.documents))
    return judged(
        f"{len(found)} of {len(asked)} unanswerable questions have all their words in a passage",
        len(found),
        Limit(high=0.0),
        "; ".join(map(str, found)),
        [Offender(each.id, f"may be answered by {each.doc}: {each.sentence}") for each in found],
        otherwise=GateState.WARNING,
    )
