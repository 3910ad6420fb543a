"""Evidence is relocated after random edits, exactly if it was not edited, and never to another text."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.datasets.anchoring.matches import MatchType, NoMatch, NoMatchReason
from ragsmith.datasets.anchoring.repair import EvidenceRepair, OldEvidence, RepairedEvidence
from ragsmith.types import Document, Span

VOCABULARY = [f"{a}{b}" for a in ("bo", "ka", "li", "mu", "ne", "ro", "ta", "vi") for b in ("lam", "dor", "nis", "pek")]


def sentence(draw):
    return f"{' '.join(draw.choices(VOCABULARY, k=draw.randint(6, 14))).capitalize()}."


def stood(doc, text, wanted):
    start = text.index(wanted)
    return OldEvidence(Span(doc, start, start + len(wanted)), wanted)


def repaired(texts, *pieces):
    found = EvidenceRepair([Document(id_, id_, text) for id_, text in texts.items()]).repair(pieces)
    return [found[piece] for piece in pieces]


@given(seed=st.integers(0, 100_000))
def test_what_was_not_changed_itself_is_found_to_the_letter(seed):
    draw = random.Random(seed)
    sentences = [sentence(draw) for _ in range(24)]
    before = "\n\n".join(sentences)
    pieces = [stood("d", before, each) for each in sentences]
    after = list(sentences)
    for _ in range(draw.randint(1, 8)):
        at = draw.randrange(len(after))
        match draw.choice(("insert", "delete", "move")):
            case "insert":
                after.insert(at, sentence(draw))
            case "delete":
                del after[at]
            case "move":
                after.insert(draw.randrange(len(after)), after.pop(at))
    text = "\n\n".join(after)
    for piece, outcome in zip(pieces, repaired({"d": text}, *pieces), strict=True):
        assert isinstance(outcome, RepairedEvidence) == (piece.text in after)
        if isinstance(outcome, RepairedEvidence):
            [place] = outcome.matches
            assert text[place.span.start : place.span.end] == piece.text


@given(seed=st.integers(0, 100_000))
def test_a_text_with_a_word_changed_is_found_where_it_is(seed):
    draw = random.Random(seed)
    sentences = [sentence(draw) for _ in range(12)]
    before = "\n\n".join(sentences)
    at = draw.randrange(12)
    words = sentences[at].removesuffix(".").split()
    words[draw.randrange(1, len(words) - 1)] = "zzz"
    after = [sentence(draw), *sentences[:at], f"{' '.join(words)}.", *sentences[at + 1 :]]
    text = "\n\n".join(after)
    *others, changed = repaired(
        {"d": text},
        *(stood("d", before, sentences[i]) for i in range(12) if i != at),
        stood("d", before, sentences[at]),
    )
    assert all(
        isinstance(other, RepairedEvidence) and other.matches[0].match_type is MatchType.EXACT for other in others
    )
    assert isinstance(changed, RepairedEvidence)
    [place] = changed.matches
    assert (place.match_type, text[place.span.start : place.span.end]) == (MatchType.FUZZY, after[at + 1])


LAMPS = (
    "Lamps are lit at dusk by the keeper. They are put out when the first boat has come in. Oil is fetched on Mondays."
)
BELLS = "Bells ring at noon on every day but Friday."


def test_evidence_that_stands_is_left_alone():
    [outcome] = repaired({"d": f"{LAMPS}\n\n{BELLS}"}, OldEvidence(Span("d", 0, 36), LAMPS[:36]))
    assert isinstance(outcome, RepairedEvidence)
    assert [place.match_type for place in outcome.matches] == [MatchType.GIVEN]


def test_a_text_that_now_stands_twice_is_not_chosen_between():
    [outcome] = repaired({"d": f"New.\n\n{BELLS}\n\n{LAMPS}\n\n{BELLS}"}, stood("d", f"{LAMPS}\n\n{BELLS}", BELLS))
    assert isinstance(outcome, NoMatch)
    assert (outcome.status, len(outcome.candidates)) == (NoMatchReason.AMBIGUOUS, 2)


def test_the_evidence_beside_it_tells_which_of_two_it_is():
    before = f"{BELLS}\n\n{LAMPS}\n\n{BELLS}"
    last = OldEvidence(Span("d", before.rindex("Bells"), len(before)), BELLS)
    bells, lamps = repaired({"d": f"A line that is new.\n\n{before}"}, last, stood("d", before, LAMPS))
    assert isinstance(bells, RepairedEvidence)
    assert isinstance(lamps, RepairedEvidence)
    assert bells.matches[0].span.start == last.span.start + len("A line that is new.\n\n")


@pytest.mark.parametrize("text", ["Noon.", "Lamps"])
def test_a_word_or_two_elsewhere_are_not_taken_for_the_same(text):
    [outcome] = repaired({"d": f"{LAMPS} Noon."}, OldEvidence(Span("d", 300, 300 + len(text)), text))
    assert isinstance(outcome, NoMatch)
    assert outcome.status is NoMatchReason.AMBIGUOUS


def test_a_text_whose_form_is_like_it_is_not_the_same():
    gone = "The fund held 53 shares of Alder at the end of 2019 and 68 shares at the end of 2018."
    like = "The fund held 15 shares of Birch at the end of 2019 and 8 shares at the end of 2018."
    [outcome] = repaired({"d": like}, stood("d", f"{gone} {like}", gone))
    assert isinstance(outcome, NoMatch)
    assert outcome.status is NoMatchReason.NOT_FOUND


def test_a_text_is_followed_into_another_document():
    [outcome] = repaired({"d": LAMPS, "e": f"# Bells\n\n{BELLS}"}, stood("d", f"{LAMPS} {BELLS}", BELLS))
    assert isinstance(outcome, RepairedEvidence)
    assert outcome.matches[0].span == Span("e", 9, 9 + len(BELLS))
    [outcome] = repaired({"e": f"# Bells\n\n{BELLS}"}, stood("d", BELLS, BELLS))  # the file was renamed
    assert isinstance(outcome, RepairedEvidence)


def test_sentences_that_were_torn_apart_are_two_places():
    one, two, three = LAMPS.split(". ")
    filler = "\n\n".join(
        f"The quay has {n} bollards of iron and a crane of wood, and {n + 1} ladders." for n in range(9)
    )
    text = f"{one}. {two}.\n\n{filler}\n\n{three}"
    [outcome] = repaired({"d": text}, stood("d", LAMPS, LAMPS))
    assert isinstance(outcome, RepairedEvidence)
    assert [place.match_type for place in outcome.matches] == [MatchType.BY_SENTENCES, MatchType.BY_SENTENCES]
    assert [text[p.span.start : p.span.end] for p in outcome.matches] == [f"{one}. {two}.", three]


def test_punctuation_around_the_words_stays_with_them():
    row = "| Oslo | 210 euros | from 2024 on |"
    text = f"New.\n\n| City | Rate | Since |\n| --- | --- | --- |\n{row.replace('210', '215')}\n"
    [outcome] = repaired({"d": text}, stood("d", f"{LAMPS}\n{row}", row))
    assert isinstance(outcome, NoMatch)  # far away, and short: not sure
    shifted = f"{LAMPS}\n\n{row.replace('euros', 'crowns')}\n"
    _, outcome = repaired({"d": shifted}, stood("d", LAMPS, LAMPS), stood("d", f"{LAMPS}\n{row}", row))
    assert isinstance(outcome, RepairedEvidence)
    assert shifted[outcome.matches[0].span.start : outcome.matches[0].span.end] == row.replace("euros", "crowns")


def test_a_text_with_too_many_changed_numbers_is_a_candidate():
    gone = "A night in a hotel is paid up to 180 euros in a capital and up to 120 euros in any other town."
    now = gone.replace("180", "195").replace("120", "130")
    [outcome] = repaired({"d": now}, OldEvidence(Span("d", 0, len(gone)), gone))
    assert isinstance(outcome, NoMatch)
    assert (outcome.status, [each.span for each in outcome.candidates]) == (
        NoMatchReason.NOT_FOUND,
        [Span("d", 0, len(now) - 1)],
    )
    assert "compare it with the candidate" in outcome.reason


def test_a_text_without_words_has_no_similar_one():
    [outcome] = repaired({"d": LAMPS}, OldEvidence(Span("d", 0, 3), "***"))
    assert isinstance(outcome, NoMatch)
    assert outcome.candidates == ()
