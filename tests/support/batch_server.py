"""A server on the loopback interface with the batch API of OpenAI, whose replies are those of `fault_server`.

The first batch goes through the states that OpenAI has, one at each look, and others are done at once. The replies of
their requests, and of those to the chat API, depend on the request alone.

    with BatchServer() as server: ...                        # server.url is the base URL
"""

from __future__ import annotations

import email
import itertools
import json
import math
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from fault_kinds import reply_to

CHAT = "/v1/chat/completions"
ON_THE_WAY = ("validating", "in_progress", "finalizing")

Rule = Callable[[str, int], tuple[int, Any] | None]
"""What befalls a prompt when it is asked for the nth time: a status and a body, or a good reply."""


class BatchServer:
    """Serves from threads of its own while it is entered.

    Batches from the number ``held_from`` on, counted from 0, are not done. ``ends`` are the states in which the next
    batches end, ``completed`` once there are no more; one that does not complete has answered the first ``answered`` of
    its requests. ``breaks`` is how often a batch is begun and the reply lost, ``breaks_off`` how often half of some
    results is sent. A batch of more than ``most`` requests fails, and ``named`` is how results name a request.
    """

    def __init__(self, rule: Rule | None = None) -> None:
        self.rule: Rule = rule or (lambda prompt, n: None)
        self.held_from: float = math.inf
        self.ends: list[str] = []
        self.answered = 0
        self.breaks = self.breaks_off = 0
        self.most: float = math.inf
        self.most_at_once = 0
        self.named: Callable[[str], object] = lambda key: key
        self.batches: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.served: Counter[str] = Counter()
        """How often each request was answered, and so paid, by its body."""
        self.direct = 0
        self._looks: Counter[str] = Counter()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def is_looked_after(self, number: int) -> bool:
        """Whether a batch was begun and looked at."""
        with self._lock:
            return len(self.batches) > number and self._looks[list(self.batches)[number]] > 0

    @property
    def sizes(self) -> list[int]:
        """The numbers of requests in the batches, in the order in which these were begun."""
        return [len(self.files[batch["input_file_id"]].splitlines()) for batch in self.batches.values()]

    @property
    def last_file(self) -> list[bytes]:
        """The lines of the file that came last."""
        return self.files[list(self.files)[-1]].splitlines()

    def __enter__(self) -> BatchServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- replies -----------------------------------------------------------------------------------------------------

    def reply(self, method: str, path: str, headers: Any, raw: bytes) -> tuple[int, Any] | None:
        """Status and body, which becomes JSON unless it is bytes; None breaks the connection off."""
        with self._lock:
            where, _, _ = path.partition("?")
            if (method, where) == ("POST", "/v1/files"):
                return 200, {"id": self._file(_uploaded(headers["content-type"], raw)), "purpose": "batch"}
            if (method, where) == ("POST", "/v1/batches"):
                return self._begin(json.loads(raw))
            if (method, where) == ("GET", "/v1/batches"):
                return 200, self._page(parse_qs(path.partition("?")[2]))
            if where == CHAT:
                self.direct += 1
                return self._chat(json.loads(raw))
            kind, _, rest = where.removeprefix("/v1/").partition("/")
            if kind == "batches" and rest in self.batches:
                return 200, self._look(rest)
            if kind == "files" and (found := self.files.get(rest.removesuffix("/content"))) is not None:
                return 200, found
            return 404, {"error": {"message": "there is nothing here"}}

    def _page(self, query: dict[str, list[str]]) -> dict[str, Any]:
        names = list(reversed(self.batches))
        first = names.index(query["after"][0]) + 1 if "after" in query else 0
        last = first + min(100, int(query["limit"][0]))
        data = [self.batches[name] for name in names[first:last]]
        return {"object": "list", "data": data, "has_more": last < len(names)}

    def _file(self, content: bytes) -> str:
        name = f"file-{next(self._numbers)}"
        self.files[name] = content
        return name

    def _begin(self, asked: dict[str, Any]) -> tuple[int, Any] | None:
        assert (asked["endpoint"], asked["completion_window"]) == (CHAT, "24h")
        if asked["input_file_id"] not in self.files:
            return 400, {"error": {"message": "there is no such file"}}
        keys = [json.loads(line)["custom_id"] for line in self.files[asked["input_file_id"]].splitlines()]
        assert len(set(keys)) == len(keys)
        under_way = sum(batch.get("status") in ON_THE_WAY for batch in self.batches.values())
        self.most_at_once = max(self.most_at_once, under_way + 1)
        name = f"batch_{next(self._numbers)}"
        self.batches[name] = {"id": name, "status": "validating", **asked}
        if self.breaks:
            self.breaks -= 1
            return None
        return 200, self.batches[name]

    def _look(self, name: str) -> dict[str, Any]:
        batch = self.batches[name]
        if batch["status"] in ON_THE_WAY:
            self._looks[name] += 1
            position = list(self.batches).index(name)
            if position >= self.held_from or (not position and self._looks[name] < len(ON_THE_WAY)):
                batch["status"] = ON_THE_WAY[min(self._looks[name], 1)]
            else:
                self._end(batch, self.ends.pop(0) if self.ends else "completed")
        return batch

    def _end(self, batch: dict[str, Any], state: str) -> None:
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        if len(lines) > self.most:
            said = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for tiny"}
            batch |= {"status": "failed", "errors": {"object": "list", "data": [said]}}
            return
        good, bad = [], []
        for i, line in enumerate(lines):
            if state != "completed" and i >= self.answered:
                error = {"code": "batch_expired", "message": "not in time"}
                bad.append({"custom_id": line["custom_id"], "response": None, "error": error})
                continue
            status, body = self._chat(line["body"])
            response = {"status_code": status, "request_id": "r", "body": body}
            (good if status == 200 else bad).append(
                {"custom_id": self.named(line["custom_id"]), "response": response, "error": None}
            )
        good.reverse()  # in no order
        batch["status"] = state
        for name, rows in (("output_file_id", good), ("error_file_id", bad)):
            if rows:
                batch[name] = self._file("\n".join(map(json.dumps, rows)).encode())

    def _chat(self, body: dict[str, Any]) -> tuple[int, Any]:
        request = json.dumps(body, sort_keys=True)
        told = self.rule(body["messages"][-1]["content"], self.served[request])
        self.served[request] += 1
        return told or (200, {"model": body["model"], **reply_to("POST", CHAT, body)})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", "0")))
                told = server.reply(self.command, self.path, self.headers, raw)
                if told is None:
                    self.close_connection = True
                    return
                status, body = told
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                if self.path.endswith("/content") and server.breaks_off:
                    server.breaks_off -= 1
                    content, self.close_connection = content[: len(content) // 2], True
                self.wfile.write(content)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                return

        return Handler


def _uploaded(kind: str, raw: bytes) -> bytes:
    """The file of a form, whose purpose is a batch."""
    form = email.message_from_bytes(b"content-type: " + kind.encode() + b"\n\n" + raw)
    parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
    assert parts["purpose"].get_payload(decode=True) == b"batch"
    return bytes(parts["file"].get_payload(decode=True))
