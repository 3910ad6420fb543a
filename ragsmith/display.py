"""How objects appear in an interpreter: short, as results hold whole documents."""

import reprlib
from dataclasses import fields
from typing import Any

MAX_CHARACTERS = 600
"""Maximum length of the fields of an object in its representation."""


def short_repr(shown: Any) -> str:
    """Return the name of the class of a dataclass instance with its fields, each cut to a few words."""
    short = reprlib.Repr()
    short.maxlevel = short.maxtuple = short.maxlist = short.maxdict = 2
    short.maxstring = short.maxother = 80
    parts = (f"{one.name}={short.repr(getattr(shown, one.name))}" for one in fields(shown) if one.repr)
    text = ", ".join(parts)
    cut = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} ..."
    return f"{type(shown).__name__}({cut})"
