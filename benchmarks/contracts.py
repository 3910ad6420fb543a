"""A made-up data set: contracts whose titles are the names of their files, with questions that name the contract.

Parties, clauses and numbers are drawn from a seed. The clauses speak of "the Supplier" and "the Customer", as contracts
do: which contract a passage is from stands in the title alone.
"""

from __future__ import annotations

from random import Random

from ragsmith.datasets.dataset import make_dataset
from ragsmith.types import Dataset, Document, Example, Span

FIRST = [
    "Arkell",
    "Balderstone",
    "Corvane",
    "Dunmere",
    "Eastwick",
    "Farrow",
    "Gillespie",
    "Harrow",
    "Ivelet",
    "Jessamy",
    "Kestrel",
    "Lorimer",
    "Marchbank",
    "Norrey",
    "Oakhanger",
    "Penhallow",
    "Quillan",
    "Ravensworth",
    "Selby",
    "Tarrant",
    "Underhay",
    "Vexley",
    "Wainfleet",
    "Yardley",
    "Zennor",
]
SECOND = [
    "Freight",
    "Timber",
    "Textiles",
    "Optics",
    "Ceramics",
    "Software",
    "Foods",
    "Energy",
    "Printing",
    "Chemicals",
    "Tools",
    "Media",
]
KINDS = [
    "Master_Services_Agreement",
    "Supply_Agreement",
    "Software_Licence",
    "Distribution_Agreement",
    "Warehouse_Lease",
    "Franchise_Agreement",
    "Maintenance_Agreement",
    "Marketing_Agreement",
    "Joint_Venture_Agreement",
    "Consulting_Agreement",
]

CLAUSES = {
    "Term": (
        "This agreement begins on the date of the last signature and runs for {a} years. Unless one of the parties "
        "objects in writing {b} days before its end, it is prolonged by one year at a time.",
        "how long does it last at first",
    ),
    "Termination": (
        "Either party may terminate this agreement at will on {b} days' written notice. For a material breach "
        "that is not remedied within {c} days of a warning, it may be terminated at once.",
        "how early must one say that one wants to leave",
    ),
    "Payment": (
        "The Customer pays invoices within {c} days. On late amounts the Supplier may charge interest of {a} "
        "per cent a year, and after a second reminder it may suspend its work.",
        "how long may bills stay open",
    ),
    "Liability": (
        "Except for wilful misconduct, the liability of the Supplier for all claims of a year is limited to {e} euros. "
        "Neither party is liable for lost profit or for other indirect damage.",
        "what is the most that has to be made good when things go wrong",
    ),
    "Confidentiality": (
        "Each party keeps secret what it learns of the other's business, and binds its staff as well. This goes on "
        "for {a} years after the end of this agreement, and does not cover what was public before.",
        "how long must one keep silent afterwards",
    ),
    "Assignment": (
        "Neither party may assign this agreement without the consent of the other, which needs a good reason to refuse "
        "it. A change of control is notified within {c} days.",
        "when must one tell of a new owner",
    ),
    "Insurance": (
        "The Supplier maintains insurance for third-party damage with a cover of at least {e} euros an event, and "
        "shows a certificate once a year.",
        "for how much has one to be insured",
    ),
    "Audit": (
        "The Customer may have the books of the Supplier audited once a year, announced {c} days ahead. If fees prove "
        "overstated by more than {a} per cent, the Supplier bears the costs of the audit.",
        "how much warning is there of an inspection of the books",
    ),
    "Warranty": (
        "The Supplier warrants that what it delivers is free of defects for {d} months from acceptance. Defects are "
        "remedied free of charge, or the price is reduced.",
        "until when are faults repaired for nothing",
    ),
    "Exclusivity": (
        "Within a radius of {b} kilometres of its premises the Customer does not buy comparable goods or services from "
        "others, as long as the Supplier delivers what is ordered.",
        "how near may one not buy elsewhere",
    ),
    "Volume": (
        "The Customer orders at least {e} units in each calendar year. For what is missing it pays a fifth of the list "
        "price, unless the Supplier was in arrears.",
        "how much has to be bought each year at least",
    ),
    "Governing law": (
        "This agreement is governed by the law of the seat of the Supplier. Disputes first go to a mediator; a claim "
        "may be brought when {c} days have passed without a settlement.",
        "how long has one to talk before going to court",
    ),
    "Force majeure": (
        "A party that is prevented by events beyond its control is excused while they last. After {b} days of it the "
        "other may withdraw from orders that are not yet carried out.",
        "how long may a disaster delay things",
    ),
    "Non-solicitation": (
        "During this agreement and for {d} months thereafter neither party hires staff of the other who worked on it. "
        "It owes a penalty of {e} euros.",
        "how long may one not take on people of the other side",
    ),
}
"""Headings of clauses, with their text and what may be asked about them."""


def contracts(count: int = 101, questions: int = 2, seed: int = 0) -> Dataset:
    """``count`` contracts of 12 clauses each between 30 firms, and so many ``questions`` about each of them."""
    random = Random(seed)
    firms = random.sample([f"{first}_{second}" for first in FIRST for second in SECOND], 30)
    documents, examples = [], []
    for number in range(count):
        parties = random.sample(firms, 2)
        kind = random.choice(KINDS)
        name = f"{parties[0]}_{parties[1]}_{kind}_{number:03}"
        text, spans = "", {}
        for heading in random.sample(list(CLAUSES), 12):
            values = {"a": random.randint(2, 9), "b": 10 * random.randint(3, 12), "c": random.randint(5, 45)}
            values |= {"d": 6 * random.randint(1, 6), "e": f"{10_000 * random.randint(2, 99):,}"}
            clause = CLAUSES[heading][0].format_map(values)
            text += f"{heading}. "
            spans[heading] = Span(name, len(text), len(text) + len(clause))
            text += f"{clause}\n\n"
        documents.append(Document(name, name, text))
        for asked in random.sample(list(spans), questions):
            party = random.choice(parties).replace("_", " ")
            question = f"In the {kind.replace('_', ' ')} with {party}, {CLAUSES[asked][1]}?"
            examples.append(Example(f"{name}-{asked}", question, "", "clause", (spans[asked],)))
    return make_dataset({"name": "contracts", "title": "Contracts", "language": "en"}, documents, examples)
