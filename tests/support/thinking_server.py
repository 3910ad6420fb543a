"""A server whose model thinks before every answer, and one that refuses what others take; both count what they bill.

It thinks 50 to 2,000 tokens, by the prompt, and obeys the limit that it is sent: the reply ends there, in the middle of
a thought or of the answer. A token of it is four characters.

    with ThinkingServer("tags") as server: ...               # server.tokens and server.requests are what was used
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

from fault_kinds import Fault
from fault_replies import chat_reply, number
from fault_server import FaultServer, Request

FIELD, TAGS, USAGE = MODES = ("field", "tags", "usage")
"""Where thoughts are: in a field of their own, in tags before the answer, or nowhere but in the usage."""
FEWEST, MOST = 50, 2000
CHARACTERS = 4


def size(text: str) -> int:
    """The tokens of a text."""
    return -(-len(text) // CHARACTERS)


def thought_tokens(prompt: str) -> int:
    """The tokens that the model thinks about a prompt."""
    return FEWEST + number(f"thought {prompt}", MOST - FEWEST + 1)


class ThinkingServer(FaultServer):
    """Thinks in the way of ``mode``; ``cut`` says of a prompt and a limit whether the reply is cut all the same.

    Requests with one of the parameters that it ``refuses``, or with a message of the role ``system`` if that is one of
    them, are rejected with HTTP 400 in words like OpenAI's.
    """

    def __init__(
        self,
        mode: str = FIELD,
        *,
        refuses: Collection[str] = (),
        cut: Callable[[str, int], bool] = lambda prompt, limit: False,
        thinks: Callable[[str], int] = thought_tokens,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.mode, self.refuses, self.cut, self.thinks = mode, refuses, cut, thinks
        self.tokens = 0
        self.cut_replies = 0
        self.answer = self._think

    @property
    def requests(self) -> int:
        """All that came, those that were refused included."""
        return len(self.log)

    @property
    def refused(self) -> list[Request]:
        """The requests that were refused."""
        return [request for request in self.log if request.status == 400]

    def _fault(self, request: Request) -> Fault | None:
        body = request.body or {}
        roles = {message["role"] for message in body.get("messages", ())}
        for name in self.refuses:
            if name in body or name in roles:
                instead = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                said = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
                return Fault(status=400, said=said)
        return super()._fault(request)

    def _think(self, path: str, body: Any) -> dict[str, Any] | None:
        if "messages" not in (body or {}) or (set(self.refuses) & ({*body} | {m["role"] for m in body["messages"]})):
            return {}
        prompt = "\n".join(message["content"] for message in body["messages"])
        limit = body.get("max_completion_tokens", body.get("max_tokens", 1 << 20))
        thinks, text = self.thinks(prompt), chat_reply(prompt)
        room = min(max(0, limit - thinks), size(text) // 2 if self.cut(prompt, limit) else limit)
        is_cut = size(text) > room
        shown = text[: room * CHARACTERS]
        written = min(limit, thinks + size(shown))
        self.cut_replies += is_cut
        return self._thought(prompt, min(thinks, limit), shown, written, is_cut=is_cut, inside=is_cut and not room)

    def _thought(
        self, prompt: str, thoughts: int, text: str, written: int, *, is_cut: bool, inside: bool
    ) -> dict[str, Any]:
        draw = random.Random(prompt)
        words = ("".join(draw.choices("aeiounrst", k=8)) for _ in range(thoughts * CHARACTERS // 20 + 1))
        thought = "".join(f"Score: 1\n[2] > [1] so {word} " for word in words)[: thoughts * CHARACTERS]
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if self.mode == FIELD:
            message["reasoning_content"] = thought
        elif self.mode == TAGS:
            message["content"] = f"<think>\n{thought}" if inside else f"<think>\n{thought}\n</think>\n\n{text}"
        usage = {
            "prompt_tokens": size(prompt),
            "completion_tokens": written,
            "total_tokens": size(prompt) + written,
            "completion_tokens_details": {"reasoning_tokens": thoughts},
        }
        self.tokens += usage["total_tokens"]
        finish = "length" if is_cut else "stop"
        return {"choices": [{"index": 0, "finish_reason": finish, "message": message}], "usage": usage}
