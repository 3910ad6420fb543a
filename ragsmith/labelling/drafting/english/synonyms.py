"""Plain English words that people use for one another: what somebody says who has not read the text.

Written for this purpose and kept small on purpose: no vectors of words are in it, so that questions reworded by it do
not please retrieval by the same vectors. Each line is a group; a slash keeps what follows together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from ragsmith.labelling.drafting.english.verbs import forms, listed, participles, third_person

VERBS = """
pay settle; buy purchase get; obtain get; receive get; acquire get; require need; need require; permit let allow;
allow let permit; enable let; prohibit ban forbid; forbid ban; terminate end; end stop; cease stop; commence start;
begin start; start begin; launch start; initiate start; conclude finish; complete finish; use employ; employ use;
utilize use; apply use; demand ask; request ask/for; inform tell; notify tell; announce tell; state say; declare say;
mention say; indicate show; show reveal; reveal show; demonstrate show; display show; establish create; create make;
produce make; manufacture make; generate make; construct build; build make; develop build; design plan; modify change;
alter change; amend change; adjust change; change alter; replace swap; exchange swap; remove take/out; delete remove;
repair fix; fix repair; mend repair; increase grow; grow increase; rise grow; raise lift; reduce cut; decrease drop;
lower cut; decline drop; fall drop; exceed go/over; surpass beat; reach get/to; achieve reach; attain reach; maintain
keep; retain keep; preserve keep; store keep; contain have; possess own; own have; include have; comprise have;
provide give; supply give; offer give; grant give; give hand; deliver bring; send mail; submit hand/in; file lodge;
register sign/up; record write/down; note write/down; assist help; help support; support back; protect guard; defend
guard; prevent stop; avoid dodge; examine check; inspect check; verify check; check look/at; test try; investigate
look/into; analyse study; study look/into; evaluate judge; assess judge; consider weigh; regard see; view see; observe
see; notice spot; detect spot; discover find; identify find; find spot; locate find; determine work/out; calculate
work/out; compute work/out; estimate guess; predict foresee; expect foresee; believe think; argue claim; claim say;
suggest propose; propose suggest; recommend advise; choose pick; select pick; elect pick; appoint name; nominate name;
decide settle; resolve settle; agree consent; accept take; reject refuse; refuse turn/down; deny refuse; dismiss
throw/out; occur happen; happen occur; arise come/up; emerge come/up; appear show/up; disappear vanish; vary differ;
differ vary; compare set/side/by/side; connect link; link tie; attach fasten; join unite; combine merge; merge join;
divide split; separate split; influence shape; affect touch; cause bring/about; trigger set/off; operate run; run
work; function work; perform do; conduct carry/out; execute carry/out; implement put/in/place; manage run; control
steer; govern rule; direct lead; move shift; transfer move; travel go; depart leave; leave quit; arrive come; enter
go/in; remain stay; stay remain; wait hold/on; live dwell; reside live; occupy fill; die pass/away; marry wed; work
labour; earn make; win gain; gain win; lose miss; spend use/up; cost come/to; charge bill; lend loan; borrow take/out;
sell trade; trade deal; invest put/money/in; write pen; publish bring/out; release bring/out; issue put/out; read
look/through; speak talk; discuss talk/about; describe portray; explain account/for; define spell/out; call name; name
call; feature star; perform act; play act; compete take/part; attend go/to; participate take/part; teach instruct;
learn find/out; train coach; follow come/after; precede come/before; cover deal/with; involve take/in; attack strike;
destroy wreck; damage harm; harm hurt; kill slay; fight battle; threaten menace; escape flee; cool chill; heat warm;
press push; pull draw; open unlock; close shut; lock seal; cut slice; mount fit; fit mount; connect hook/up; switch
flip; clean wash; fill load; drain empty; rotate turn; turn spin
"""

NOUNS = """
purchase acquisition; buyer purchaser customer; seller vendor; lessee tenant; tenant renter; lessor landlord; landlord
owner; lease tenancy; dwelling home; house home; residence home; building premises; workshop studio; employer boss;
employee worker; worker labourer; staff crew; company firm; corporation firm; firm business; business firm; enterprise
firm; organisation body; organization body; agency body; institution body; authority body; committee panel; court
tribunal; tribunal court; judge magistrate; lawyer advocate; attorney lawyer; judgment ruling; decision ruling; ruling
decision; verdict decision; proceedings case; action lawsuit; lawsuit case; claim demand; claimant plaintiff;
defendant accused; plaintiff claimant; creditor lender; lender creditor; debtor borrower; surety guarantor; debt
sum/owed; loan credit; fee charge; price cost; cost expense; expense cost; payment sum; amount sum; sum amount;
revenue income; income earnings; profit gain; earnings profit; loss shortfall; tax levy; damages compensation;
compensation redress; contract agreement; agreement deal; treaty pact; law rule; regulation rule; rule regulation;
provision rule; requirement condition; obligation duty; duty obligation; permission leave; duration length; deadline
time/limit; beginning start; start outset; end close; stage phase; step stage; phase stage; way manner; method way;
technique method; approach method; procedure process; process procedure; system setup; mechanism device; device
gadget; machine apparatus; tool instrument; equipment gear; component part; element part; portion share; group set;
type kind; kind sort; category class; class kind; form shape; shape form; temperature heat; total sum; majority bulk;
maximum cap; minimum floor; level degree; increase rise; rise growth; growth increase; decrease drop; decline fall;
reduction cut; change shift; difference gap; effect outcome; result outcome; outcome result; consequence result;
impact effect; influence effect; cause reason; reason ground; purpose aim; aim goal; goal aim; objective goal; target
aim; problem trouble; error mistake; mistake error; fault defect; defect flaw; failure breakdown; damage harm; risk
danger; danger hazard; accident mishap; question query; answer reply; reply answer; response answer; letter note;
notice warning; warning alert; message note; report account; document paper; paper document; certificate proof;
evidence proof; proof evidence; information details; data figures; file record; record entry; list roll; register
roll; book volume; article piece; film movie; movie film; song tune; album record; singer vocalist; actor performer;
actress performer; author writer; writer author; director filmmaker; player sportsman; team side; match game; game
match; season campaign; championship title; league division; award prize; prize award; city town; town city; village
settlement; country nation; nation country; region area; area zone; district quarter; location place; place spot; site
place; road street; street road; river stream; mountain peak; island isle; ship vessel; vessel ship; aircraft plane;
plane aircraft; car automobile; vehicle car; train railway; population people; people persons; man gentleman; woman
lady; child kid; children kids; parent guardian; brother sibling; sister sibling; husband spouse; wife spouse; friend
companion; leader head; chief head; president head; member part; founder creator; owner holder; holder bearer; user
operator; operator user; teacher instructor; student pupil; doctor physician; illness disease; disease illness;
medicine drug; school academy; university college; college university; education schooling; research studies; study
investigation; test trial; experiment test; theory idea; idea notion; concept idea; view opinion; opinion view;
attitude stance; behaviour conduct; behavior conduct; habit custom; market marketplace; trade commerce; investor
backer; investment stake; asset holding; money cash; currency money; insurance cover; customer client; client
customer; product goods; goods wares; software program; program software; computer machine; network web; website site;
command order; setting option; option choice; choice option; image picture; noise sound; surface face; corner angle;
belt strap; flow stream; experiment trial; investigation study; equation formula
"""

OTHERS = """
large big; big large; huge big; significant important; important key; major main; main chief; primary main; principal
main; small little; little small; minor small; additional further; further more; extra additional; entire whole; whole
full; complete full; total overall; several various; various different; different other; numerous many; sufficient
enough; necessary needed; essential vital; possible feasible; impossible unfeasible; likely probable; certain sure;
clear plain; obvious plain; difficult hard; hard difficult; easy simple; simple easy; quick fast; rapid fast; fast
quick; slow sluggish; early timely; late overdue; recent new; new fresh; former earlier; previous earlier; original
first; initial first; final last; last final; old aged; ancient old; modern contemporary; famous well-known; popular
well-liked; common usual; usual normal; normal usual; regular steady; special particular; specific particular;
particular specific; general broad; wide broad; narrow tight; low small; long lengthy; short brief; brief short;
strong powerful; powerful strong; weak feeble; heavy weighty; correct right; wrong incorrect; true real; false untrue;
legal lawful; lawful legal; illegal unlawful; unlawful illegal; valid binding; public open; private personal; personal
private; financial monetary; economic financial; political civic; domestic home; foreign overseas; international
worldwide; global worldwide; local nearby; dangerous risky; safe secure; available on/hand; empty vacant; expensive
costly; cheap inexpensive; bad poor; best finest; worst poorest; better superior; written in/writing; approximately
about; about around; immediately at/once; promptly quickly; quickly fast; slowly gradually; usually normally; normally
usually; generally mostly; mainly mostly; primarily mainly; frequently often; often frequently; rarely seldom; always
at/all/times; currently now; previously before; subsequently later; originally at/first; eventually in/the/end;
finally in/the/end; however still; therefore so; automatically by/itself; manually by/hand; together jointly;
separately apart; directly straight; completely fully; entirely fully; partly in/part; almost nearly; nearly almost;
within inside; during in; regarding about; concerning about; whether if; unless except/if; per each; prior earlier
"""


NOUNS_TOO = listed(
    """
    accept advance aim amount answer appeal approach attack balance benefit bill cause challenge change charge
    check claim close comment contact contract control copy cost count cover credit cut damage date deal decline
    decrease default delay demand deposit design display document double drop end escape estimate exchange
    excuse experience export face fall favour fear feature fight file film fine finish fit focus force form
    function gain grant guarantee guard guide harm help hold hope host import increase influence interest issue
    judge label land launch lead leave lift light like limit link list load loan lock look loss mark market
    match matter measure mention merge mind mount move name need note notice number object offer order pause pay
    permit plan play point practice present press price process produce profit program project promise purchase
    question quote race raise range rate reach read record reduce refund refuse release remedy rent repair reply
    report request research reserve respect rest result return reverse review reward rise risk rule run sale
    sample scale score search season seat sense sentence separate serve set settle shape share show sign signal
    sound split spread stage stamp stand start state stay step stock stop store study supply support surprise
    suspect switch talk target tax term test time touch tour track trade train transfer transport travel treat
    trial trigger trust try turn update use value view visit vote wait walk want warm waste watch weigh wish
    witness work worry write yield finish building
    """
)
"""Verbs that are nouns as often: only what stands before one tells which it is."""


@cache
def nouns() -> Mapping[str, tuple[str, ...]]:
    """Nouns and other words that are no verbs, in singular and plural, to what people say instead."""
    found: dict[str, tuple[str, ...]] = {}
    for word, others in _groups(OTHERS):
        found.setdefault(word, others)
    for word, others in _groups(NOUNS):
        found.setdefault(word, others)
        found.setdefault(_plural(word), tuple(_plural(other) for other in others))
    return found


@cache
def verbs() -> Mapping[str, tuple[str, ...]]:
    """Finite forms of verbs to the same forms of others; a past only of those whose participle is the same."""
    found: dict[str, tuple[str, ...]] = {}
    past = {base: form for form, (kind, base) in forms().items() if kind == "past" and form in participles()}
    for word, others in _groups(VERBS):
        found.setdefault(word, others)
        found.setdefault(third_person(word), tuple(_inflected(other, third_person) for other in others))
        able = [other for other in others if other.split(" ")[0] in past]
        if word in past and able and past[word] != word:
            found.setdefault(past[word], tuple(_inflected(other, past.__getitem__) for other in able))
    return found


def _groups(text: str) -> list[tuple[str, tuple[str, ...]]]:
    groups = [entry.split() for entry in text.replace("\n", " ").split(";")]
    return [(group[0], tuple(word.replace("/", " ") for word in group[1:])) for group in groups if len(group) > 1]


def _inflected(phrase: str, change: Callable[[str], str]) -> str:
    first, blank, rest = phrase.partition(" ")
    return f"{change(first)}{blank}{rest}"


def _plural(phrase: str) -> str:
    words = phrase.split(" ")
    place = 0 if phrase == "sum owed" else -1
    words[place] = _plural_word(words[place])
    return " ".join(words)


def _plural_word(word: str) -> str:
    if word.endswith(("s", "people", "staff", "equipment")):
        return word
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("sh", "ch", "x", "z")) else f"{word}s"
