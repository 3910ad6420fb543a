"""Documents of several tenants about the same things, each with the name of its tenant, and questions about them."""

from __future__ import annotations

import random
from datetime import date, timedelta

from ragsmith.index.index import Corpus
from ragsmith.models.loading import ModelNames, load_models
from ragsmith.models.roles import Models
from ragsmith.text.filters import parse_filter
from ragsmith.types import Chunk, Document, Filter

TENANTS = ("Acmequist", "Brassford", "Coralind", "Dunmarsh", "Eskerby")
TYPES = {"tenant": str, "signed": date, "year": float}
PEOPLE = ("Oda Lenz", "Mara Quill", "Jonas Brandt", "Ida Vesper", "Tomas Rook", "Lena Ashdown", "Piet Marrow")
THINGS = ("the harbour dues", "the sea wall", "the tide bell", "the salt tax", "the north ferry", "the eel weir")
DEEDS = ("pays for", "mends", "inspects", "leases", "guards", "sells")
PLACES = ("Velmouth", "Corsey", "Inchfield", "Brenwick", "Coldwell")


def make_corpus(size: int, seed: int = 1) -> Corpus:
    """Make ``size`` documents of one chunk, of each tenant as many."""
    rng = random.Random(seed)
    documents, chunks = [], []
    for number in range(size):
        tenant = TENANTS[number % len(TENANTS)]
        signed = date(2015, 1, 1) + timedelta(days=rng.randrange(3650))
        person, other = rng.sample(PEOPLE, 2)
        text = (
            f"{person} {rng.choice(DEEDS)} {rng.choice(THINGS)} of {rng.choice(PLACES)} in {signed.year}. "
            f"{other} {rng.choice(DEEDS)} {rng.choice(THINGS)} for {rng.randrange(10, 99)} crowns. {tenant} keeps this."
        )
        doc = f"{tenant.lower()}/{number:05d}"
        fields = {"tenant": tenant, "signed": signed, "year": float(signed.year)}
        documents.append(Document(doc, f"Deed {number} of {tenant}", text, fields=fields))
        chunks.append(Chunk(f"{doc}:0", doc, 0, 0, len(text), text, f"Deed {number} of {tenant}"))
    return Corpus(documents, tuple(chunks))


def make_models(corpus: Corpus) -> Models:
    """Load the embedded models for ``corpus``."""
    return load_models(ModelNames(), [chunk.text for chunk in corpus.chunks])


def make_questions(count: int, seed: int = 2) -> list[str]:
    """Make questions, some of which name a tenant."""
    rng = random.Random(seed)
    forms = (
        "Who {deed} {thing} of {place}?",
        "What does {person} do with {thing}?",
        "How many crowns does {tenant} take for {thing} in {year}?",
        "Which deed of {tenant} names {person} and {place}?",
    )
    return [
        rng.choice(forms).format(
            deed=rng.choice(DEEDS),
            thing=rng.choice(THINGS),
            place=rng.choice(PLACES),
            person=rng.choice(PEOPLE),
            tenant=rng.choice(TENANTS),
            year=rng.randrange(2015, 2025),
        )
        for _ in range(count)
    ]


def filter_of(tenant: str) -> Filter:
    """The filter that admits the documents of a tenant."""
    return parse_filter(f"tenant={tenant}", TYPES)
