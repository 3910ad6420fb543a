"""Monthly reports of the offices of a town over seven years, and questions about a period, about none, or misleading.

The wordings of periods were written after `ragsmith.text.periods`, which was not changed for them. Some name their
period in a way that it does not read (``in '21``, ``03/2021``, ``third-quarter 2020``).
"""

from __future__ import annotations

import calendar
import random
from collections.abc import Iterator
from datetime import date

from ragsmith.datasets.dataset import make_dataset
from ragsmith.types import Dataset, Document, Example, Span

OFFICES = ("Harbour Office", "Water Board", "Fire Brigade", "Library", "Tram Works", "Parks Department")
MONTHS = [(year, month) for year in range(2017, 2024) for month in range(1, 13)]
TOPICS = {
    "inspections": ("inspected {n} sites", "How many sites did {office} inspect {period}?"),
    "spending": ("spent {n} crowns on repairs", "What did {office} spend on repairs {period}?"),
    "staff": ("hired {n} people", "How many people were hired by {office} {period}?"),
    "complaints": ("answered {n} complaints", "{period}, how many complaints did {office} answer?"),
    "training": ("held {n} courses", "How many courses were held at {office} {period}?"),
}
PLACES = ("Velmouth", "Corsey", "Inchfield", "Brenwick", "Coldwell", "Tarn End", "Oxmead", "Sallow Bridge")
DAMAGES = ("the broken sluice", "the fallen lime tree", "the flooded cellar", "the cracked boiler", "the blocked drain")
EVENTS = ("storm", "frost", "drought", "strike", "fair")
PEOPLE = ("Oda Lenz", "Mara Quill", "Jonas Brandt", "Ida Vesper", "Tomas Rook", "Lena Ashdown", "Piet Marrow")

MONTH = (
    *("in {month} {year}", "during {month} of {year}", "over the course of {month} {year}", "in {abbreviated}. {year}"),
    *("in {number:02}/{year}", "in the month of {month} {year}", "for {year}-{number:02}", "in {month} '{short}"),
)
QUARTER = (
    *("in the {ordinal} quarter of {year}", "in Q{quarter} of {year}", "for {year}-Q{quarter}"),
    *("in {ordinal}-quarter {year}", "from {first} to {last} {year}", "between {first} and {last} of {year}"),
)
LAST_QUARTER = (
    "in the last quarter of {year}",
    "in the closing quarter of {year}",
    "in the last three months of {year}",
)
SEASON = (
    *("in the {season} of {year}", "over the {season} {year}", "in {season} {year}", "throughout {season} '{short}"),
    "during the {season} months of {year}",
)
SEASONS = {"spring": 3, "summer": 6, "autumn": 9}
YEAR = (
    *("in {year}", "throughout {year}", "in the calendar year {year}", "for the whole of {year}", "back in {year}"),
    *("in '{short}", "in {year} as a whole", "in the financial year {year}"),
)
BEFORE = (
    "before {year}",
    "prior to {year}",
    "in the years before {year}",
    "up to the start of {year}",
    "in any year before {year}",
)
SINCE = ("since {year}", "from {year} onwards", "from {year} on", "in {year} and later", "after the start of {year}")


def make_reports(*, dated_text: bool, seed: int = 1) -> Dataset:
    """Make 504 reports of one chunk and 500 questions; the texts name their month if ``dated_text``.

    Types of questions are ``dated`` (300), ``undated`` (100) and ``misleading`` (100), which name a year that is not
    that of the report.
    """
    rng = random.Random(seed)
    documents: list[Document] = []
    spans: dict[tuple[str, str, int, int], Span] = {}
    incidents = []
    for office in OFFICES:
        for year, month in MONTHS:
            id_ = f"{office.lower().replace(' ', '-')}/{year}-{month:02}"
            head = f"Report of the {office}"
            text = f"# {head}\n\n"
            text += f"This is the report of {calendar.month_name[month]} {year}. " if dated_text else ""
            for topic, (said, _) in rng.sample(sorted(TOPICS.items()), 4):
                sentence = f"The {office} {said.format(n=rng.randrange(10, 999))}. "
                spans[office, topic, year, month] = Span(id_, len(text), len(text) + len(sentence) - 1)
                text += sentence
            person, place, damage = rng.choice(PEOPLE), rng.choice(PLACES), rng.choice(DAMAGES)
            event, of = rng.choice(EVENTS), year - rng.randrange(1, 4)
            sentence = f"{person} saw to {damage} at {place}, left by the {event} of {of}."
            incidents.append((Span(id_, len(text), len(text) + len(sentence)), place, damage, event, of))
            fields = {"office": office, "issued": date(year, month, calendar.monthrange(year, month)[1])}
            documents.append(Document(id_, head, f"{text}{sentence}\n", fields=fields))
    questions = [*_ask_dated(rng, spans, 300), *_ask_incidents(rng, incidents)]
    examples = [
        Example(f"{kind}-{number:03}", text, "", kind, evidence)
        for number, (kind, text, evidence) in enumerate(questions)
    ]
    return make_dataset({"name": "reports", "language": "en"}, documents, examples)


def _ask_dated(
    rng: random.Random, spans: dict[tuple[str, str, int, int], Span], count: int
) -> Iterator[tuple[str, str, tuple[Span, ...]]]:
    """Yield questions about an office in a period, with the sentences of all its reports in it."""
    made = 0
    while made < count:
        office, topic = rng.choice(OFFICES), rng.choice(sorted(TOPICS))
        period, months = _draw_period(rng)
        evidence = tuple(spans[key] for at in months if (key := (office, topic, *at)) in spans)
        if evidence:
            made += 1
            named = f"the {rng.choice((office, office.lower()))}"
            text = TOPICS[topic][1].format(office=named, period=period)
            yield "dated", text[0].upper() + text[1:], evidence


def _draw_period(rng: random.Random) -> tuple[str, list[tuple[int, int]]]:
    """Draw a period in words, and its months."""
    year, month = rng.choice(MONTHS)
    quarter = (month - 1) // 3
    ordinal = ("first", "second", "third", "fourth")[quarter]
    first, last = calendar.month_name[3 * quarter + 1], calendar.month_name[3 * quarter + 3]
    season = rng.choice(sorted(SEASONS))
    kind = rng.choice(("month", "quarter", "last quarter", "season", "year", "before", "since"))
    wordings = {"month": MONTH, "quarter": QUARTER, "last quarter": LAST_QUARTER, "season": SEASON, "year": YEAR}
    wording = rng.choice(wordings.get(kind) or (BEFORE if kind == "before" else SINCE))
    starts = {"month": month, "quarter": 3 * quarter + 1, "last quarter": 10, "season": SEASONS[season], "year": 1}
    length = {"month": 1, "quarter": 3, "last quarter": 3, "season": 3, "year": 12}
    if kind == "before":
        months = [at for at in MONTHS if at[0] < year]
    elif kind == "since":
        months = [at for at in MONTHS if at[0] >= year]
    else:
        months = [(year, starts[kind] + offset) for offset in range(length[kind])]
    words = {"month": calendar.month_name[month], "abbreviated": calendar.month_abbr[month], "number": month}
    words |= {"quarter": quarter + 1, "ordinal": ordinal, "first": first, "last": last, "season": season}
    return wording.format(year=year, short=f"{year % 100:02}", **words), months


def _ask_incidents(
    rng: random.Random, incidents: list[tuple[Span, str, str, str, int]]
) -> Iterator[tuple[str, str, tuple[Span, ...]]]:
    """Yield questions about what one report tells, without a year or with one that is not that of the report."""
    undated: dict[tuple[str, str, str], list[Span]] = {}
    dated: dict[tuple[str, str, int], list[Span]] = {}
    for span, place, damage, event, year in incidents:
        undated.setdefault((damage, event, place), []).append(span)
        dated.setdefault((event, place, year), []).append(span)
    for damage, event, place in rng.sample(sorted(undated), 100):
        yield (
            "undated",
            f"Who took care of {damage} that a {event} left at {place}?",
            tuple(undated[damage, event, place]),
        )
    for event, place, year in rng.sample(sorted(dated), 100):
        yield "misleading", f"Who saw to what the {event} of {year} left at {place}?", tuple(dated[event, place, year])
