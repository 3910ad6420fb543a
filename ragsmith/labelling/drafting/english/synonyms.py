"""Plain English words that people use for one another: what somebody says who has not read the text.

Written for this purpose and kept small on purpose: no vectors of words are in it, so that questions reworded by it do
not please retrieval by the same vectors. Each line is a group; a slash keeps what follows together.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ragsmith.labelling.drafting.english.verbs import forms, third_person

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
keep; retain keep; preserve keep; keep hold; store keep; hold keep; contain have; possess own; own have; include have;
comprise have; provide give; supply give; offer give; grant give; give hand; deliver bring; send mail; submit hand/in;
file lodge; register sign/up; record write/down; note write/down; assist help; help support; support back; protect
guard; defend guard; prevent stop; avoid dodge; examine check; inspect check; verify check; check look/at; test try;
investigate look/into; analyse study; study look/into; evaluate judge; assess judge; consider weigh; regard see; view
see; observe see; notice spot; detect spot; discover find; identify find; find spot; locate find; determine work/out;
calculate work/out; compute work/out; estimate guess; predict foresee; expect foresee; believe think; argue claim;
claim say; suggest propose; propose suggest; recommend advise; choose pick; select pick; elect pick; appoint name;
nominate name; decide settle; resolve settle; agree consent; accept take; reject refuse; refuse turn/down; deny
refuse; dismiss throw/out; occur happen; happen occur; arise come/up; emerge come/up; appear show/up; disappear
vanish; vary differ; differ vary; compare set/side/by/side; connect link; link tie; attach fasten; join unite; combine
merge; merge join; divide split; separate split; influence shape; affect touch; cause bring/about; lead result;
trigger set/off; operate run; run work; function work; perform do; conduct carry/out; execute carry/out; implement
put/in/place; manage run; control steer; govern rule; direct lead; move shift; transfer move; travel go; depart leave;
leave quit; arrive come; return come/back; enter go/in; remain stay; stay remain; wait hold/on; live dwell; reside
live; occupy fill; die pass/away; marry wed; work labour; earn make; win gain; gain win; lose miss; spend use/up; cost
come/to; charge bill; owe have/to/pay; lend loan; borrow take/out; sell trade; trade deal; invest put/money/in; write
pen; publish bring/out; release bring/out; issue put/out; read look/through; speak talk; discuss talk/about; describe
portray; explain account/for; define spell/out; call name; name call; feature star; perform act; play act; compete
take/part; attend go/to; participate take/part; teach instruct; learn find/out; train coach; follow come/after;
precede come/before; cover deal/with; involve take/in; attack strike; destroy wreck; damage harm; harm hurt; kill
slay; fight battle; threaten menace; escape flee; cool chill; heat warm; press push; pull draw; open unlock; close
shut; lock seal; cut slice; mount fit; fit mount; connect hook/up; switch flip; clean wash; fill load; drain empty;
rotate turn; turn spin
"""

NOUNS = """
purchase acquisition; buyer purchaser customer; seller vendor; lessee tenant; tenant renter; lessor landlord; landlord
owner; lease tenancy; dwelling home; house home; residence home; building premises; workshop studio; employer boss;
employee worker; worker labourer; staff crew; company firm; corporation firm; firm business; business firm; enterprise
firm; organisation body; organization body; agency body; institution body; authority body; committee panel; court
tribunal; tribunal court; judge magistrate; lawyer advocate; attorney lawyer; judgment ruling; decision ruling; ruling
decision; verdict decision; proceedings case; action lawsuit; lawsuit case; claim demand; claimant plaintiff;
defendant accused; plaintiff claimant; creditor lender; lender creditor; debtor borrower; surety guarantor; debt
sum/owed; loan credit; interest charge; fee charge; price cost; cost expense; expense cost; payment sum; amount sum;
sum amount; value worth; revenue income; income earnings; profit gain; earnings profit; loss shortfall; tax levy;
penalty fine; fine penalty; damages compensation; compensation redress; deposit security; security safeguard; contract
agreement; agreement deal; treaty pact; clause term; statute law; law rule; act law; regulation rule; rule regulation;
provision rule; requirement condition; obligation duty; duty obligation; right entitlement; permission leave; duration
length; deadline time/limit; beginning start; start outset; end close; stage phase; step stage; phase stage; way
manner; method way; technique method; approach method; procedure process; process procedure; system setup; mechanism
device; device gadget; machine apparatus; tool instrument; equipment gear; component part; element part; portion
share; share part; group set; set group; type kind; kind sort; category class; class kind; form shape; shape form;
size extent; width breadth; weight mass; speed pace; rate pace; temperature heat; pressure stress; force strength;
power strength; energy power; number count; total sum; majority bulk; limit cap; maximum cap; minimum floor; level
degree; degree extent; increase rise; rise growth; growth increase; decrease drop; decline fall; reduction cut; change
shift; difference gap; effect outcome; result outcome; outcome result; consequence result; impact effect; influence
effect; cause reason; reason ground; purpose aim; aim goal; goal aim; objective goal; target aim; problem trouble;
issue matter; error mistake; mistake error; fault defect; defect flaw; failure breakdown; damage harm; risk danger;
danger hazard; accident mishap; question query; answer reply; reply answer; response answer; letter note; notice
warning; warning alert; message note; report account; document paper; paper document; certificate proof; evidence
proof; proof evidence; information details; data figures; file record; record entry; list roll; register roll; book
volume; article piece; film movie; movie film; song tune; album record; band group; singer vocalist; actor performer;
actress performer; author writer; writer author; director filmmaker; player sportsman; team side; match game; game
match; season campaign; championship title; league division; award prize; prize award; city town; town city; village
settlement; country nation; nation country; state country; region area; area zone; district quarter; location place;
place spot; site place; road street; street road; river stream; mountain peak; island isle; ship vessel; vessel ship;
aircraft plane; plane aircraft; car automobile; vehicle car; train railway; population people; people persons; man
gentleman; woman lady; child kid; children kids; parent guardian; brother sibling; sister sibling; husband spouse;
wife spouse; friend companion; leader head; chief head; president head; member part; founder creator; owner holder;
holder bearer; user operator; operator user; teacher instructor; student pupil; doctor physician; illness disease;
disease illness; medicine drug; school academy; university college; college university; education schooling; research
studies; study investigation; test trial; trial test; experiment test; theory idea; idea notion; concept idea; view
opinion; opinion view; attitude stance; behaviour conduct; behavior conduct; habit custom; market marketplace; trade
commerce; stock share; bond security; investor backer; investment stake; fund pot; asset holding; money cash; currency
money; bank lender; insurance cover; customer client; client customer; product goods; goods wares; service help;
software program; program software; computer machine; network web; website site; code source; command order; setting
option; option choice; choice option; button key; screen display; display screen; image picture; picture image; noise
sound; light lamp; surface face; edge rim; corner angle; top upper/side; bottom underside; cover lid; belt strap;
screw bolt; wing aerofoil; flow stream; heat warmth; experiment trial; investigation study; solution answer; equation
formula
"""

OTHERS = """
large big; big large; huge big; significant important; important key; major main; main chief; primary main; principal
main; small little; little small; minor small; additional further; further more; extra additional; entire whole; whole
full; complete full; total overall; several various; various different; different other; numerous many; sufficient
enough; necessary needed; essential vital; possible feasible; impossible unfeasible; likely probable; certain sure;
clear plain; obvious plain; difficult hard; hard difficult; easy simple; simple easy; quick fast; rapid fast; fast
quick; slow sluggish; early timely; late overdue; recent new; new fresh; current present; present current; former
earlier; previous earlier; original first; initial first; final last; last final; old aged; ancient old; modern
contemporary; famous well-known; popular well-liked; common usual; usual normal; normal usual; regular steady; special
particular; specific particular; particular specific; general broad; wide broad; narrow tight; high tall; low small;
deep profound; long lengthy; short brief; brief short; strong powerful; powerful strong; weak feeble; heavy weighty;
correct right; right proper; wrong incorrect; true real; false untrue; legal lawful; lawful legal; illegal unlawful;
unlawful illegal; valid binding; void null; public open; private personal; personal private; financial monetary;
economic financial; political civic; domestic home; foreign overseas; international worldwide; global worldwide; local
nearby; dangerous risky; safe secure; available on/hand; empty vacant; free gratis; expensive costly; cheap
inexpensive; poor bad; bad poor; good fine; best finest; worst poorest; better superior; written in/writing;
approximately about; about around; immediately at/once; promptly quickly; quickly fast; slowly gradually; usually
normally; normally usually; generally mostly; mainly mostly; primarily mainly; frequently often; often frequently;
rarely seldom; always at/all/times; currently now; previously before; subsequently later; originally at/first;
eventually in/the/end; finally in/the/end; however still; therefore so; automatically by/itself; manually by/hand;
together jointly; separately apart; directly straight; completely fully; entirely fully; partly in/part; almost
nearly; nearly almost; within inside; during in; regarding about; concerning about; whether if; unless except/if; per
each; prior earlier
"""


@cache
def synonyms() -> Mapping[str, tuple[str, ...]]:
    """Each word, in each of its forms, to what people say instead in the same form."""
    found: dict[str, tuple[str, ...]] = {}
    for word, others in _groups(OTHERS):
        found.setdefault(word, others)
    for word, others in _groups(NOUNS):
        found.setdefault(word, others)
        found.setdefault(_plural(word), tuple(_plural(other) for other in others))
    past = {base: form for form, (kind, base) in forms().items() if kind == "past"}
    for word, others in _groups(VERBS):
        if word in found:
            continue
        found[word] = others
        found.setdefault(third_person(word), tuple(_on_first(other, third_person) for other in others))
        if word in past and past[word] not in found:
            told = tuple(_on_first(other, lambda base: past.get(base, "")) for other in others)
            if all(told) and not any(each.startswith(" ") for each in told):
                found[past[word]] = told
    return found


def _groups(text: str) -> list[tuple[str, tuple[str, ...]]]:
    groups = [entry.split() for entry in text.replace("\n", " ").split(";")]
    return [(group[0], tuple(word.replace("/", " ") for word in group[1:])) for group in groups if len(group) > 1]


def _on_first(phrase: str, change: object) -> str:
    first, blank, rest = phrase.partition(" ")
    return f"{change(first)}{blank}{rest}"  # type: ignore[operator]


def _plural(phrase: str) -> str:
    words = phrase.split(" ")
    place = 0 if len(words) > 1 and words[0] in {"sum", "time"} and words[1] in {"owed"} else -1
    words[place] = _plural_word(words[place])
    return " ".join(words)


def _plural_word(word: str) -> str:
    if word.endswith(("s", "people", "staff", "equipment")):
        return word
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("sh", "ch", "x", "z")) else f"{word}s"
