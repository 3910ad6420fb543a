"""One's own prompts: texts from files that replace the prompts of tasks, by role, which is the name of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from ragsmith.errors import UsageError
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import Input, Task
from ragsmith.text.files import TextError, read_text, shorten

T = TypeVar("T")


@dataclass(frozen=True)
class OwnPrompt:
    """A text that replaces the prompt of a task; results do not depend on its ``name``."""

    name: str = field(compare=False)
    text: str

    @classmethod
    def from_dict(cls, value: Any) -> OwnPrompt:
        """Create a prompt from ``{"name": ..., "text": ...}``.

        Raises:
            ValueError: the structure is invalid.
        """
        if not isinstance(value, Mapping) or set(value) != {"name", "text"} or not all(map(_is_text, value.values())):
            raise ValueError("an own prompt must have a 'name' and a 'text'")
        return cls(**value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


class OwnPrompts(LanguageModel):
    """A view of a language model that performs tasks with one's own ``prompts``, by role."""

    def __init__(self, model: LanguageModel, prompts: Mapping[str, OwnPrompt]) -> None:
        self._model = model
        self._prompts = prompts

    @property
    def id(self) -> str:
        """The id of the model."""
        return self._model.id

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """See `LanguageModel.run`."""
        return self._model.run(self._reword(task), sample=sample, **inputs)

    def run_all(self, task: Task[T], inputs: Sequence[Mapping[str, Input]]) -> tuple[T, ...]:
        """See `LanguageModel.run_all`."""
        return self._model.run_all(self._reword(task), inputs)

    def _reword(self, task: Task[T]) -> Task[T]:
        own = self._prompts.get(task.name)
        return task if own is None else task.reword(own.text)


def with_prompts(model: LanguageModel, prompts: Mapping[str, OwnPrompt]) -> LanguageModel:
    """Return a view of ``model`` with one's own ``prompts``, or ``model`` if there are none."""
    return OwnPrompts(model, prompts) if prompts else model


# --- files of prompts ------------------------------------------------------------------------------------------------

BUILT_IN = "default"
"""The name of the built-in prompt of a task, in the place of a file."""

MAX_PROMPT_BYTES = 1 << 16
"""Maximum size of the file of a prompt."""

Wordings = Mapping[str, Sequence[OwnPrompt | None]]
"""The prompts by role that a search explores; None is the built-in one."""

FORM = "files by role, such as {'answer': 'brief.txt'}, or a list of texts such as 'answer=brief.txt'"
"""The form of one's own prompts, in messages."""

PromptFiles = Annotated[
    Mapping[str, str | Path | Sequence[str | Path]] | Sequence[str],
    FORM,
]
"""Files by role, or texts of the form ``ROLE=FILE``."""


def read_prompts(files: PromptFiles, folder: Path | None = None) -> Wordings:
    """Read prompts from files, whose paths may be relative to ``folder``; ``default`` stands for the built-in prompt.

    Raises:
        UsageError: a file cannot be read or is blank, a role has a prompt twice, or an entry has another form.
    """
    if not isinstance(files, Mapping | list | tuple):
        raise UsageError(f"prompts must be {FORM}, not {shorten(files)}")
    by_role: dict[str, list[object]] = {}
    for role, listed in files.items() if isinstance(files, Mapping) else map(_split_entry, files):
        by_role.setdefault(str(role), []).extend(listed if isinstance(listed, list | tuple) else [listed])
    return {role: _read_wordings(role, listed, folder or Path()) for role, listed in by_role.items()}


def _split_entry(entry: object) -> tuple[str, str]:
    role, equals, file = entry.partition("=") if isinstance(entry, str) else ("", "", "")
    if not (role and equals and file):
        raise UsageError(f"the prompt {shorten(entry)} must be ROLE=FILE, such as answer=brief.txt")
    return role, file


def _read_wordings(role: str, files: Sequence[object], folder: Path) -> tuple[OwnPrompt | None, ...]:
    found = [None if file == BUILT_IN else _read_prompt(role, file, folder) for file in files]
    names = [own.name if own else BUILT_IN for own in found]
    if not found or len(set(names)) < len(names) or len({own and own.text for own in found}) < len(found):
        raise UsageError(f"the prompts of {role} must be files of different names and texts, not {names}")
    return tuple(found)


def _read_prompt(role: str, file: object, folder: Path) -> OwnPrompt:
    if not isinstance(file, str | Path):
        raise UsageError(f"the prompt of {role} must be a file or the word {BUILT_IN}, not {shorten(file)}")
    path = folder / file
    try:
        text = read_text(path, limit=MAX_PROMPT_BYTES, links=True)
    except TextError as error:
        raise UsageError(f"the prompt of {role}, {error.at(path)}") from None
    if not text.strip():
        raise UsageError(f"the prompt of {role}: {path} is blank: write what the model is to do")
    return OwnPrompt(path.stem, text)
