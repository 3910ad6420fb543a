"""Forms of common English verbs. What is no form of one of these is not taken for a verb: a word may be a noun, too."""

from __future__ import annotations

from functools import cache


def listed(text: str) -> frozenset[str]:
    """The words of a text that lists them."""
    return frozenset(text.split())


REGULAR = """
accept access accuse achieve acknowledge acquire act adapt add address adjust admit adopt advance affect agree aim
alert allocate allow alter amend announce appeal appear apply appoint approve argue arise arrange arrest arrive assert
assess assign assist assume attach attack attempt attend attract avoid award base belong benefit block bound calculate
call cancel capture carry cause cease challenge change charge check choose_ cite claim clamp clarify classify clear
climb close collapse collect combine comment commit compare compete complete comply compose compute conclude conduct
confer confine confirm connect consider consist constitute consult consume contain continue contract contribute control
convert convince cool cooperate copy correct correspond count cover create cross damage decide declare decline decrease
dedicate defend define delay delegate delete deliver demand demonstrate deny depart depend deposit derive describe
deserve design destroy detect determine develop devote die differ direct disappear disclose discover discuss dismiss
display distinguish distribute divide dominate donate double earn edit elect eliminate emerge emphasise emphasize
employ enable encourage end enforce engage enhance enjoy ensure enter entitle equal escape establish estimate evaluate
examine exceed exchange exclude execute exercise exhibit exist expand expect expire explain explore export express
extend face fail fear feature file fill finance finish fit fix focus follow force form formulate found free fulfil
function gain generate govern graduate grant guarantee guide handle happen head help hire hope host identify ignore
illustrate imagine implement imply import impose improve include incorporate increase incur indicate induce infer
influence inform inherit inhibit initiate inject insist inspect install intend interpret introduce invent invest
investigate invite involve issue join judge justify kill label lack land last launch lie_ lift like limit list live
load locate lock look lose_ lower maintain manage manufacture mark marry match matter measure mention merge modify
monitor mount move name need negotiate note notice notify obey object oblige observe obtain occupy occur offer open
operate oppose order organise organize originate outline overlap owe own pass pause perform permit persist play point
possess precede predict prefer prepare prescribe present preserve press prevent print proceed process produce prohibit
promise promote propose protect prove provide publish punish purchase pursue qualify quote raise reach react realise
realize receive recognise recognize recommend record recover reduce refer reflect refuse regard register regulate
reject relate release rely remain remove render renew rent repair repeat replace reply report represent request require
resemble reserve reset_ resign resist resolve respect respond restore restrict result resume retain retire return
reveal review revolve reward rise_ rotate rule sample satisfy save scale score seek_ seem select separate serve settle
share ship show_ shape sign signal slow smooth solve sound specify stabilise start state stay stem stick_ stop store
strengthen stress stretch study submit succeed suffer suggest supply support suppose surround survive suspect suspend
sustain switch talk target tend terminate test threaten touch tour track trade train transfer transform translate
travel treat trigger trip try turn unite update urge use validate value vary verify violate visit vote wait walk want
warm warn wash waste watch weigh welcome widen wish witness work worry yield
"""

IRREGULAR = """
arise arose arisen; bear bore borne; beat beat beaten; become became become; begin began begun; bind bound bound;
break broke broken; bring brought brought; build built built; buy bought bought; catch caught caught;
choose chose chosen; come came come; cost cost cost; cut cut cut; deal dealt dealt; do did done; draw drew drawn;
drive drove driven; eat ate eaten; fall fell fallen; feed fed fed; feel felt felt; fight fought fought;
find found found; fly flew flown; forbid forbade forbidden; forget forgot forgotten; get got got; give gave given;
go went gone; grow grew grown; have had had; hear heard heard; hit hit hit; hold held held; keep kept kept;
know knew known; lay laid laid; lead led led; leave left left; lend lent lent; let let let; lie lay lain;
lose lost lost; make made made; mean meant meant; meet met met; outweigh outweighed outweighed; pay paid paid;
put put put; read read read; reset reset reset; ride rode ridden; rise rose risen; run ran run; say said said;
see saw seen; seek sought sought; sell sold sold; send sent sent; set set set; shoot shot shot; show showed shown;
shut shut shut; sing sang sung; sit sat sat; sleep slept slept; speak spoke spoken; spend spent spent;
split split split; spread spread spread; stand stood stood; steal stole stolen; stick stuck stuck; swim swam swum;
take took taken; teach taught taught; tell told told; think thought thought; throw threw thrown;
understand understood understood; undergo underwent undergone; undertake undertook undertaken; wear wore worn;
win won won; withdraw withdrew withdrawn; write wrote written
"""

THIRD, PAST, BASE, PARTICIPLE = "third", "past", "base", "participle"

BE_HAVE_MODAL = listed(
    """
    is are was were has have had can could may might must shall should will would cannot
    """
)
"""Auxiliaries, which a question puts in front of its subject."""


@cache
def forms() -> dict[str, tuple[str, str]]:
    """Each finite form of a verb to what form it is and the base form; base and third person go before the past."""
    found: dict[str, tuple[str, str]] = {}
    irregular = [entry.split() for entry in IRREGULAR.split(";")]
    regular = [verb for verb in REGULAR.split() if not verb.endswith("_")]
    for base in [*regular, *(entry[0] for entry in irregular)]:
        found[base] = (BASE, base)
        found[third_person(base)] = (THIRD, base)
    for base in regular:
        found.setdefault(_past(base), (PAST, base))
    for base, past, _ in irregular:
        found.setdefault(past, (PAST, base))
    return found


@cache
def participles() -> frozenset[str]:
    """Past participles: what may follow ``is`` in the passive."""
    regular = {_past(verb) for verb in REGULAR.split() if not verb.endswith("_")}
    return frozenset(regular | {entry.split()[2] for entry in IRREGULAR.split(";")})


def third_person(base: str) -> str:
    """``carry`` -> ``carries``."""
    if base in {"have", "do", "go"}:
        return {"have": "has", "do": "does", "go": "goes"}[base]
    if base.endswith("y") and base[-2] not in "aeiou":
        return f"{base[:-1]}ies"
    return f"{base}es" if base.endswith(("s", "sh", "ch", "x", "z", "o")) else f"{base}s"


def _past(base: str) -> str:
    if base.endswith("e"):
        return f"{base}d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return f"{base[:-1]}ied"
    return f"{base}{base[-1]}ed" if base in _DOUBLED else f"{base}ed"


_DOUBLED = listed(
    """
    admit commit compel confer control defer incur infer occur omit permit plan prefer refer ship slip stem step
    stop submit transfer trip trap equip rebel
    """
)
