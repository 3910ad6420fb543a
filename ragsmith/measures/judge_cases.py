"""Answers whose order is known, to check a judge with: references, paraphrases, and what to change in a copy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JudgeCase:
    """A question with its reference of several sentences, the same in other words, and how to make wrong copies of it.

    ``denial`` and ``number`` are what to replace in the reference, and by what.
    """

    question: str
    reference: str
    paraphrase: str
    denial: tuple[str, str]
    number: tuple[str, str]


CASES = (
    JudgeCase(
        "When may I take my bicycle on the tram?",
        "Bicycles are allowed on trams after 7 in the evening. A bicycle needs a ticket of its own.",
        "You may bring one along from seven in the evening, and you have to buy a separate ticket for it.",
        ("are allowed", "are not allowed"),
        ("after 7", "after 9"),
    ),
    JudgeCase(
        "How long does the dough for the rye bread rest?",
        "The dough rests for 14 hours in a cool place. It must not be kneaded again afterwards.",
        "Leave it somewhere cool for fourteen hours, and do not knead it any more once that is over.",
        ("must not be", "must be"),
        ("14 hours", "4 hours"),
    ),
    JudgeCase(
        "Which plants in the greenhouse need water in winter?",
        "The citrus trees are watered every 10 days in winter. The cacti get no water until March.",
        "Only the citrus trees do, once in ten days; the cacti stay dry until March comes.",
        ("are watered", "are not watered"),
        ("10 days", "25 days"),
    ),
    JudgeCase(
        "What does the library charge for a book that comes back late?",
        "Each day of delay costs 20 cents for a book. Children do not pay anything.",
        "Adults owe twenty cents a day for every overdue book, while for children it is free.",
        ("do not pay", "do pay"),
        ("20 cents", "50 cents"),
    ),
    JudgeCase(
        "Can the ferry carry lorries?",
        "Yes, the ferry carries lorries of up to 18 tonnes. Their drivers have to report at the pier an hour before.",
        "It can, provided that a lorry weighs 18 tonnes at most and its driver is at the pier one hour early.",
        ("ferry carries", "ferry does not carry"),
        ("18 tonnes", "28 tonnes"),
    ),
    JudgeCase(
        "At what height was the second camp of the expedition?",
        "The second camp stood at 5,300 metres. It could be reached from the valley without ropes.",
        "They put it up 5300 metres above the sea, in a place for which nobody coming up the valley needed a rope.",
        ("could be reached", "could not be reached"),
        ("5,300", "6,300"),
    ),
    JudgeCase(
        "What happens if the freezer is left open?",
        "After 90 seconds the freezer gives an alarm. The compressor does not stop.",
        "You hear a warning once the door has been open for a minute and a half, that is 90 seconds; cooling goes on.",
        ("does not stop", "stops"),
        ("90 seconds", "30 seconds"),
    ),
    JudgeCase(
        "How was the old organ saved from the fire?",
        "Twelve villagers carried its pipes out in 1874. The wooden case was not saved.",
        "In 1874 the pipes were brought outside by a dozen, twelve people of the village; the case of wood burnt.",
        ("was not saved", "was saved"),
        ("1874", "1847"),
    ),
    JudgeCase(
        "Does the insurance pay for a stolen camera?",
        "A stolen camera is paid for up to 800 euros. The theft must be reported to the police.",
        "It does, as far as 800 euros, if you told the police that the thing was stolen.",
        ("is paid for", "is not paid for"),
        ("800 euros", "300 euros"),
    ),
    JudgeCase(
        "Which swimmers may use the deep pool?",
        "Swimmers who are 12 years old may use the deep pool. They can enter it without an adult.",
        "From the age of twelve one is let into the deep pool, and no grown-up has to come along.",
        ("may use", "may not use"),
        ("12 years", "16 years"),
    ),
    JudgeCase(
        "How often does the choir rehearse, and may one miss it?",
        "The choir rehearses 2 evenings a week. Singers who miss a rehearsal cannot sing in the next concert.",
        "There are two evenings of practice each week; whoever is absent from one is left out of the next concert.",
        ("cannot sing", "can sing"),
        ("2 evenings", "4 evenings"),
    ),
    JudgeCase(
        "Is the water of the spring safe to drink?",
        "No, the water is not safe to drink. It held 65 milligrams of nitrate a litre when it was tested.",
        "It isn't. A test showed that every litre of it had 65 milligrams of nitrate.",
        ("No, the water is not", "Yes, the water is"),
        ("65 milligrams", "15 milligrams"),
    ),
    JudgeCase(
        "How is the telescope brought to a new target?",
        "The telescope turns to a new target within 40 seconds. Its dome has to be turned by hand.",
        "It takes no more than forty seconds to swing round by itself, but somebody must move the dome manually.",
        ("has to be turned", "does not have to be turned"),
        ("40 seconds", "70 seconds"),
    ),
    JudgeCase(
        "What did the strike of the dockers achieve?",
        "The strike raised the wages by 6 per cent. The working day was not shortened.",
        "Dockers earned six per cent more after it, but went on working as many hours a day as before.",
        ("was not shortened", "was shortened"),
        ("6 per cent", "9 per cent"),
    ),
    JudgeCase(
        "How are the beehives protected in winter?",
        "The hives are wrapped in straw when it is colder than 5 degrees. Their entrances are never closed.",
        "Below five degrees they get a coat of straw, and the bees can always leave through the entrance.",
        ("are never closed", "are closed"),
        ("5 degrees", "15 degrees"),
    ),
    JudgeCase(
        "How long is the guarantee on the boots, and what does it leave out?",
        "The boots have a guarantee of 3 years. Worn soles are not covered by it.",
        "For three years the maker answers for the boots, though not for soles that have worn down.",
        ("are not covered", "are covered"),
        ("3 years", "5 years"),
    ),
    JudgeCase(
        "When was the bridge opened to cars?",
        "The bridge was opened to cars in 1961. Walkers had been able to cross it since 1958.",
        "Cars have been driving over it since 1961; three years earlier, in 1958, people on foot were let across.",
        ("was opened", "was not opened"),
        ("1961", "1969"),
    ),
    JudgeCase(
        "What should a patient do who forgot a tablet?",
        "A forgotten tablet may be taken up to 8 hours late. Two tablets should never be taken together.",
        "The patient can still swallow it if no more than eight hours have gone by, but not along with the next one.",
        ("should never be taken", "should be taken"),
        ("8 hours", "18 hours"),
    ),
    JudgeCase(
        "Who may fish in the lake?",
        "Guests of the inn can fish in the lake with 1 rod each. They are not required to hold a licence.",
        "Everybody who stays at the inn may do so, using one rod per person, and no licence is asked for.",
        ("are not required", "are required"),
        ("1 rod", "3 rods"),
    ),
    JudgeCase(
        "How much did the museum pay for the portrait?",
        "The museum paid 45,000 francs for the portrait. It did not know then who had painted it.",
        "It bought the picture for forty-five thousand francs, at a time when its painter was still unknown to it.",
        ("did not know", "knew"),
        ("45,000", "54,000"),
    ),
)
