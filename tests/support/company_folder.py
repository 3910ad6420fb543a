"""A made-up company folder that repeats itself: 60 files, whose statements stand in three of them each.

A topic has a chapter of the handbook, a page of the intranet and slides. The two rules of a topic stand in all three:
verbatim in the handbook, with other line ends in the intranet, and as list items, mostly without a full stop, on the
slides. The rest of every file is its own. The help desk asks for each rule in its own words, and answers in its own.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

# topic: its rules, each with the help desk's question and answer
TOPICS: dict[str, tuple[tuple[str, str, str], tuple[str, str, str]]] = {
    "Annual leave": (
        (
            "Full-time employees receive 27 days of paid leave in each calendar year.",
            "How many holidays do I get if I work full time?",
            "27 days of leave a year",
        ),
        (
            "Up to six unused days may be carried into the next year if they are taken before the end of April.",
            "Can I keep leave I did not use for next year?",
            "Yes, six days, to be taken before the end of April.",
        ),
    ),
    "Sickness": (
        (
            "A medical certificate is required from the fourth day of an absence because of illness.",
            "When do I have to bring a note from the doctor?",
            "From the fourth day you are ill.",
        ),
        (
            "Employees call their team lead before nine in the morning on the first day of an illness.",
            "Whom do I tell that I am ill, and by when?",
            "Your team lead, before nine.",
        ),
    ),
    "Business travel": (
        (
            "Trains are booked in second class, and first class is allowed on journeys of more than four hours.",
            "May I travel first class on the train?",
            "Only if the journey takes more than four hours.",
        ),
        (
            "A hotel may cost up to 135 euros per night, breakfast included.",
            "What is the limit for a hotel?",
            "135 euros a night with breakfast",
        ),
    ),
    "Expenses": (
        (
            "Receipts are handed in within thirty days after the end of the trip.",
            "How long can I wait before I hand in my receipts?",
            "30 days after the trip ends",
        ),
        (
            "Claims above 500 euros need the signature of the head of department.",
            "Who has to sign a large expense claim?",
            "The head of department, if it is above 500 euros.",
        ),
    ),
    "Passwords": (
        (
            "A password has at least fourteen characters and is changed only after an incident.",
            "How long must my password be?",
            "At least fourteen characters.",
        ),
        (
            "After five wrong attempts an account is locked for twenty minutes.",
            "I mistyped my login several times and cannot get in, how long is the account locked?",
            "Twenty minutes, after five wrong attempts.",
        ),
    ),
    "Laptops": (
        (
            "Laptops are replaced every four years, or earlier if a repair costs more than half of the price.",
            "When am I given a new laptop?",
            "After four years.",
        ),
        (
            "A stolen laptop is reported to the security desk within two hours, by day and by night.",
            "My computer was stolen, what should I do?",
            "Report it to the security desk within two hours.",
        ),
    ),
    "Badges": (
        (
            "A lost badge is blocked at reception and replaced on the same day for a fee of ten euros.",
            "What does it cost to replace my lost badge?",
            "Ten euros.",
        ),
        (
            "Visitors wear a yellow badge and are accompanied in all rooms except the canteen.",
            "May guests walk around the building alone?",
            "No, visitors are accompanied except in the canteen.",
        ),
    ),
    "Meeting rooms": (
        (
            "A booked room that nobody enters within a quarter of an hour becomes free again.",
            "What happens to my room booking if I arrive late?",
            "It is free again after a quarter of an hour.",
        ),
        (
            "Rooms with a video system are on the second and the fifth floor.",
            "Where do I find a room with video?",
            "On floors two and five: second and fifth.",
        ),
    ),
    "Working from home": (
        (
            "Two days a week may be worked from home after the probation period.",
            "How often may I work from home?",
            "Two days a week, after probation.",
        ),
        (
            "The company pays up to 300 euros once for a desk, a chair or a screen at home.",
            "Do you pay for furniture in my home office?",
            "Once up to 300 euros, for a desk, chair or screen.",
        ),
    ),
    "Parental leave": (
        (
            "Parental leave is requested in writing at least eight weeks before it begins.",
            "How far ahead must parental leave be requested?",
            "Eight weeks, in writing.",
        ),
        (
            "The second parent receives ten paid days within two months after the birth.",
            "Does the other parent get time off after a birth?",
            "Yes, ten paid days in the first two months.",
        ),
    ),
    "Training": (
        (
            "Each employee has a training budget of 1,200 euros per year, which expires in December.",
            "How much may I spend on courses?",
            "1,200 euros a year.",
        ),
        (
            "Courses of more than three days are approved by the personnel department.",
            "Who approves a course that takes a whole week?",
            "The personnel department, as it is more than three days.",
        ),
    ),
    "Pensions": (
        (
            "The company adds 40 percent to what employees pay into the pension scheme.",
            "How much does the employer pay towards my pension?",
            "40 percent on top of your own payments.",
        ),
        (
            "The contribution can be changed on the first of January and the first of July.",
            "When can I change the contribution to my pension?",
            "On 1 January or July: the first of January, the first of July.",
        ),
    ),
    "Parking": (
        (
            "Parking permits are drawn by lot among the applicants every September.",
            "How are the parking permits given out?",
            "They are drawn by lot in September.",
        ),
        (
            "Bicycles are kept in the cellar, whose door opens with the badge.",
            "Where can I leave my bicycle?",
            "In the cellar, with your badge.",
        ),
    ),
    "Canteen": (
        ("Lunch is served from half past eleven to two.", "When does the canteen serve lunch?", "From 11:30 to 2."),
        (
            "Employees pay 4.80 euros for a meal, and the company pays the rest.",
            "What do I pay for lunch in the canteen?",
            "4.80 euros for a meal",
        ),
    ),
    "Fire safety": (
        (
            "In case of fire everyone leaves by the stairs and meets at the flagpole behind the warehouse.",
            "Where is the assembly point when the alarm rings?",
            "At the flagpole behind the warehouse.",
        ),
        (
            "Each floor has two wardens, who are named on the poster next to the lift.",
            "How do I find out who the fire warden of my floor is?",
            "The wardens are named on the poster next to the lift.",
        ),
    ),
    "Data protection": (
        (
            "Data of applicants is deleted six months after the position has been filled.",
            "How long do we keep data of applicants?",
            "Six months after the position is filled.",
        ),
        (
            "A breach is reported to the data protection officer at once, and to the authority within 72 hours.",
            "How quickly must the authority hear of a data breach?",
            "Within 72 hours.",
        ),
    ),
    "Purchasing": (
        (
            "Orders above 2,000 euros need three written offers from different suppliers.",
            "How many offers do I need for a big order?",
            "Three written offers, above 2,000 euros.",
        ),
        (
            "Invoices go to the accounts office by e-mail only.",
            "Where do suppliers send invoices?",
            "By e-mail to accounts.",
        ),
    ),
    "Hiring": (
        (
            "Whoever recommends a new colleague receives 750 euros once the probation period is over.",
            "Is there a bonus if I recommend a friend as a colleague?",
            "750 euros after probation.",
        ),
        (
            "Interviews are held by two people, one of whom is from another team.",
            "Who takes part in a job interview on our side?",
            "Two people, one from another team.",
        ),
    ),
    "Working hours": (
        (
            "Everyone is at work between ten and three, and chooses the other hours freely.",
            "Between which hours must I be at work?",
            "From ten to three.",
        ),
        (
            "Overtime is compensated with free time within the following three months.",
            "Is overtime paid or do I get free time?",
            "It is compensated with free time within three months.",
        ),
    ),
    "Leaving": (
        (
            "The notice period is three months to the end of a quarter for both sides.",
            "What is my notice period?",
            "Three months to the end of a quarter.",
        ),
        (
            "On the last day the laptop, the badge and all keys are returned to reception.",
            "What do I have to hand back when I leave?",
            "Laptop, badge and keys, at reception.",
        ),
    ),
}

KINDS = ("handbook", "intranet", "slides")


def _files(topic: str, number: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of the three documents of a topic."""
    first, second = (rule for rule, _, _ in TOPICS[topic])
    name = topic.lower().replace(" ", "-")
    yield (
        f"handbook/{name}",
        f"# {topic}\n\nChapter {number + 1} of the handbook has what was agreed with the works council. {first} "
        f"Exceptions are decided case by case.\n\n## Details\n\n{second} Forms are in the appendix.\n",
    )
    halves = second.split(" ")
    wrapped = " ".join(halves[: len(halves) // 2]) + "\n" + " ".join(halves[len(halves) // 2 :])
    yield (
        f"intranet/{name}",
        f"# {topic} at a glance\n\nThis page was last checked in month {number % 12 + 1}.\n\n{wrapped}\n\n{first}\n\n"
        f"Still open? Write to desk {number + 31}.\n",
    )
    marks = ("1. ", "2. ") if number % 2 else ("- ", "- ")
    yield (
        f"slides/{name}",
        f"# Welcome week, part {number + 1}\n\n## {topic} in two points\n\n"
        f"{marks[0]}{first.rstrip('.')}\n{marks[1]}{second.rstrip('.')}\n\nNext: part {number + 2}.\n",
    )


def company_folder(folder: Path) -> Path:
    """Write the documents to ``folder/documents`` and the list to ``folder/list.csv``; return ``folder``."""
    for number, topic in enumerate(TOPICS):
        for name, text in _files(topic, number):
            path = folder / "documents" / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    with (folder / "list.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "answer"])
        writer.writerows((question, answer) for rules in TOPICS.values() for _, question, answer in rules)
    return folder


def rule_of(question: str) -> str:
    """Return the rule that ``question`` asks for."""
    return next(rule for rules in TOPICS.values() for rule, asked, _ in rules if asked == question)


def says(text: str, rule: str) -> bool:
    """Whether ``text`` is of ``rule`` but for white space, the full stop and the mark of a list."""
    bare = re.sub(r"^\s*(?:-|\d+\.)\s+", "", text)
    return " ".join(bare.split()) in rule
