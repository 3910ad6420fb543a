"""Questions for one fact."""

from __future__ import annotations

from ragsmith.labelling.drafting.prompts.prompt import FORM, MATERIAL, WORDING, Prompt, alone, ask, questions_in

PROMPT = f"""Write questions about a fact that this text states: a time, an amount, a name, a condition, a reason.

The text is from {{title}}.
{MATERIAL}

{{>text}}

{WORDING}
The answer is short: the fact itself, in a phrase or a sentence.

{FORM}
"""

parse = questions_in

FACTUAL = Prompt("factual", "factual", ask("factual", PROMPT, parse, 512), alone)
