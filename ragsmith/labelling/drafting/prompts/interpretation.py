"""Questions on a case: what the text means for a situation that it does not describe itself."""

from __future__ import annotations

from ragsmith.labelling.drafting.prompts.prompt import FORM, MATERIAL, WORDING, Prompt, alone, ask, questions_in

PROMPT = f"""Write questions that this text answers by what follows from it: somebody describes a situation of their
own, or asks why or what if, and what the text states decides it.

The text is from {{title}}.
{MATERIAL}

{{>text}}

{WORDING}
The answer says what follows and why, in one or two sentences; it adds nothing that the text does not support.

{FORM}
"""

parse = questions_in

INTERPRETATION = Prompt("interpretation", "interpretation", ask("interpretation", PROMPT, parse, 640), alone)
