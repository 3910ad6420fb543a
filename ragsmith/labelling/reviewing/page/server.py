"""HTTP server for pages of people's decisions, on 127.0.0.1 only.

As pages of other sites in the same browser could send requests to this server, every path begins with a random token,
the Host header must name this machine (which prevents DNS rebinding), and requests that change data must be JSON from
the page itself.
"""

import hmac
import json
import os
import secrets
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from ragsmith.errors import UsageError
from ragsmith.labelling.reviewing.decisions import (
    NO_REASON,
    REASONS,
    Accept,
    Decision,
    Edit,
    Quote,
    Reject,
    UneditableDraft,
    origin_of,
)
from ragsmith.labelling.reviewing.journal import Unapplied
from ragsmith.labelling.reviewing.passages import ReviewPassage
from ragsmith.labelling.reviewing.review import DecidedMeanwhile, Review, ReviewedDraft, normalise_reviewer
from ragsmith.reporting.inline import inline_page
from ragsmith.text.files import MIB, TextError, shorten
from ragsmith.text.jsonl import parse_json
from ragsmith.types import Document, RepeatedSpan, Span

HERE = Path(__file__).parent
ADDRESS = "127.0.0.1"
MAX_BODY_BYTES = MIB
"""Maximum size of the body of a request, in bytes."""
MAX_LENGTH_DIGITS = 18
"""Maximum number of digits of a Content-Length header."""
IDLE_SECONDS = 60
"""Timeout of an idle connection, in seconds."""

Body = Mapping[str, object]
Values = dict[str, object]
Actions = Mapping[str, Callable[[Body], Values]]


class PageServer(ThreadingHTTPServer):
    """Server of the page in a ``folder`` on ``port``, 0 for a free one.

    ``reads`` and ``writes`` have the answers to GET and POST requests by path, as functions of the parameters or of the
    body.

    Raises:
        OSError: the port is in use.
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # on other systems this would allow two processes to listen

    def __init__(self, folder: Path, reads: Actions, writes: Actions, port: int = 0, token: str | None = None) -> None:
        self.page, self.reads, self.writes = page(folder), reads, writes
        self.token = token or secrets.token_urlsafe(18)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise OSError(error.errno, f"port {port} cannot be used: {error.strerror}") from error

    @property
    def port(self) -> int:
        """Port of the server."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """URL of the page."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Report an error in a request, unless the client disconnected."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def finish(self) -> None:
        """Stop ``serve_forever``, in a new thread, as `shutdown` blocks until it has returned."""
        threading.Thread(target=self.shutdown, daemon=True).start()


class ReviewServer(PageServer):
    """Server of the page of ``review``; decisions are recorded for ``reviewer``.

    Raises:
        OSError: the port is in use.
        UsageError: the name of the reviewer is invalid.
    """

    def __init__(self, review: Review, reviewer: str, port: int = 0, token: str | None = None) -> None:
        self.review, self.reviewer = review, normalise_reviewer(reviewer)
        writes = {"decide": self._decide, "reopen": self._reopen, "begin": self._begin}
        super().__init__(HERE, {"state": self._state, "draft": self._draft}, writes, port, token)

    def _state(self, _: Body) -> Values:
        review = self.review
        return {
            "name": review.name,
            "reviewer": self.reviewer,
            "reasons": list(REASONS),
            "drafts": [summarise_draft(draft) for draft in review.drafts],
        }

    def _draft(self, parameters: Body) -> Values:
        more = str(parameters.get("more", "0"))
        if not more.isdecimal() or len(more) > 4:
            raise UsageError(f"more={shorten(more)} is not a number of requests for more text")
        review = self.review
        return describe_draft(review, review.draft(str(parameters.get("id", ""))), int(more))

    def _decide(self, body: Body) -> Values:
        return {"draft": summarise_draft(self.review.decide(decision=_parse_decision(body), **self._identify(body)))}

    def _reopen(self, body: Body) -> Values:
        return {"draft": summarise_draft(self.review.reopen(**self._identify(body)))}

    def _begin(self, body: Body) -> Values:
        _parse_edit(body)  # only a valid edit is saved
        typed = {key: body[key] for key in ("question", "answer", "evidence") if key in body}
        self.review.begin(typed=typed, **self._identify(body))
        return {}

    def _identify(self, body: Body) -> dict[str, str]:
        """Return the draft of a request, the digest of the state that the page showed, and the reviewer."""
        id_, looked_at = body.get("id"), body.get("seen")
        if not isinstance(id_, str) or not isinstance(looked_at, str):
            raise UsageError("a decision must have the id of the draft, and the digest of the state that was seen")
        return {"id_": id_, "looked_at": looked_at, "reviewer": self.reviewer}


@cache
def page(folder: Path = HERE) -> tuple[bytes, str]:
    """Return the page of a folder, in the style of reviews, and a policy that allows only its own script and style."""
    style = "" if folder == HERE else (HERE / "page.css").read_text(encoding="utf-8")
    text, policy = inline_page(folder, style)
    return text.encode(), policy


class _PageRefusal(UsageError):
    """A request is refused with an error status."""

    def __init__(self, status: HTTPStatus, problem: str) -> None:
        self.status = status
        super().__init__(problem)


class _Handler(BaseHTTPRequestHandler):
    """Handler of the requests of a connection."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version = "ragsmith"
    sys_version = ""
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """Answer a request that reads."""
        self._handle({"": lambda _: {}, **self.server.reads})

    def do_POST(self) -> None:
        """Answer a request that changes data."""
        self._handle({"finish": lambda _: {}, **self.server.writes}, posted=True)

    def _handle(self, actions: Actions, *, posted: bool = False) -> None:
        self._read = not posted
        try:
            name, given = self._parse_path()
            if name not in actions:
                raise _PageRefusal(HTTPStatus.NOT_FOUND, "there is nothing here")
            body: Body = self._body() if posted else given
        except _PageRefusal as refused:
            if posted:
                self._skip_body()
            self._send_json(refused.status, {"error": str(refused)})
            return
        if not name:
            self._send(HTTPStatus.OK, *self.server.page)
            return
        self._answer(lambda: actions[name](body))
        if name == "finish":  # after the response, as the process exits soon after
            self.server.finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name in the base class
        """Log nothing, as the paths of requests contain the token."""

    def _parse_path(self) -> tuple[str, dict[str, str]]:
        """Return the path after the token, and the query parameters."""
        host_header = (self.headers.get("Host") or "").lower()
        if host_header not in {f"{host}:{self.server.port}" for host in (ADDRESS, "localhost")}:
            raise _PageRefusal(HTTPStatus.FORBIDDEN, "only requests to this machine are answered")
        parts = urlsplit(self.path)
        token, slash, name = parts.path.removeprefix("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise _PageRefusal(
                HTTPStatus.NOT_FOUND, "the address belongs to no page; use the one that was printed last"
            )
        return name, {key: values[-1] for key, values in parse_qs(parts.query).items()}

    def _skip_body(self) -> None:
        """Read the body of a refused request, up to the limit, as closing the connection earlier loses the reply."""
        length = self.headers.get("Content-Length") or ""
        self.close_connection = True
        if _is_valid_length(length) and not self._read:
            self.rfile.read(int(length))

    def _body(self) -> Body:
        kind = (self.headers.get("Content-Type") or "").split(";")[0].strip().lower()
        origin = self.headers.get("Origin")
        if kind != "application/json" or origin not in (None, f"http://{self.headers.get('Host')}"):
            raise _PageRefusal(HTTPStatus.FORBIDDEN, "only the page itself may change anything")
        length = self.headers.get("Content-Length") or ""
        if not _is_valid_length(length):
            raise _PageRefusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {MAX_BODY_BYTES} bytes, and a Content-Length header"
            )
        self._read = True
        try:
            body = parse_json(self.rfile.read(int(length)).decode("utf-8"))
        except (TextError, UnicodeDecodeError) as error:
            raise _PageRefusal(HTTPStatus.BAD_REQUEST, f"the request cannot be read: {error}") from None
        if not isinstance(body, dict):
            raise _PageRefusal(HTTPStatus.BAD_REQUEST, "the request is no object")
        return body

    def _answer(self, make: Callable[[], Values]) -> None:
        """Send the values that ``make`` returns, or its error."""
        try:
            self._send_json(HTTPStatus.OK, make())
        except DecidedMeanwhile as error:
            self._send_json(HTTPStatus.CONFLICT, {"error": str(error), "draft": summarise_draft(error.draft)})
        except UneditableDraft as error:
            self._send_json(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error), "problems": list(error.problems)})
        except UsageError as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True  # the client disconnected
        except Unapplied as error:
            self._send_json(HTTPStatus.INSUFFICIENT_STORAGE, {"error": str(error.strerror)})
        except OSError as error:  # for example a full disk
            problem = f"the decision could not be written ({error.strerror or error}) and was not saved"
            self._send_json(HTTPStatus.INSUFFICIENT_STORAGE, {"error": problem})

    def _send_json(self, status: HTTPStatus, values: Values) -> None:
        data = json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")
        self._send(status, data, "default-src 'none'", "application/json")

    def _send(self, status: HTTPStatus, data: bytes, policy: str, kind: str = "text/html") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(data)


def _is_valid_length(length: str) -> bool:
    """Whether a Content-Length is within the limit; the digits are limited, as `int` refuses thousands of them."""
    return length.isdecimal() and len(length) <= MAX_LENGTH_DIGITS and int(length) <= MAX_BODY_BYTES


def _parse_decision(body: Body) -> Decision:
    match body.get("decision"):
        case "accept":
            return Accept()
        case "reject":
            return Reject(str(body.get("reason") or NO_REASON))
        case "mend":
            return _parse_edit(body)
    raise UsageError(f"{body.get('decision')!r} is no decision: accept, mend or reject")


def _parse_edit(body: Body) -> Edit:
    question, answer, evidence = (body.get(key) for key in ("question", "answer", "evidence"))
    if not isinstance(question, str | None) or not isinstance(answer, str | None):
        raise UsageError("question and answer must be texts")
    if not isinstance(evidence, list | None):
        raise UsageError("evidence must be a list")
    return Edit(question, answer, None if evidence is None else tuple(map(_parse_evidence, evidence)))


def _parse_evidence(item: object) -> int | Quote:
    if type(item) is int:
        return item
    doc, text, start = (item.get(key) for key in ("doc", "text", "start")) if isinstance(item, dict) else (0, 0, 0)
    if not (isinstance(doc, str) and isinstance(text, str) and (start is None or type(start) is int)):
        raise UsageError("evidence must be positions to keep, or objects with doc, text and start")
    return Quote(doc, text, start)


def summarise_draft(draft: ReviewedDraft) -> Values:
    """Return a draft as an entry of the list."""
    return {
        "id": draft.id,
        "question": draft.question,
        "answer": draft.answer,
        "type": draft.type,
        "method": str(origin_of(draft.row).get("method", "unknown")),
        "answerable": draft.row.get("answerable", True) is not False,
        "state": draft.state.value,
        "reviewer": draft.reviewer,
        "reason": draft.reason,
        "doubt": round(draft.doubt.value, 3),
        "why": list(draft.doubt.why),
        "begun": draft.begun is not None,
        "seen": draft.seen,
    }


def describe_draft(review: Review, draft: ReviewedDraft, more: int = 0) -> Values:
    """Return a draft with its evidence and passages."""
    spans = review.spans(draft)
    placed = [number for number, span in enumerate(spans) if span is not None]  # marks are indices of located spans
    shown = review.passages(draft, more)
    evidence = [
        {
            "entry": number,
            **_describe_entry(entry, span, review.documents),
            "start": span.start if span else None,
            "found": span is not None,
        }
        for number, (entry, span) in enumerate(zip(draft.evidence, spans, strict=True))
    ]
    begun = draft.begun
    return {
        **summarise_draft(draft),
        "evidence": evidence,
        "passages": [describe_passage(passage, placed) for passage in shown],
        "more": more,
        "whole": all(passage.whole for passage in shown),
        "typed": {**begun.after, "stale": begun.before.get("seen") != draft.seen} if begun else None,
    }


def _describe_entry(entry: Mapping[str, object], span: Span | None, documents: Mapping[str, Document]) -> Values:
    """Return the document, the text and the place of an entry of evidence; of several places, the first."""
    if isinstance(span, RepeatedSpan):
        docs = ", ".join(dict.fromkeys(place.doc for place in span.alternatives))
        text = documents[span.doc].text[span.start : span.end]
        return {"doc": span.doc, "text": f"{text} (also in {docs})", "part": {}}
    part = {key: value for key, value in entry.items() if key not in ("doc", "start", "end", "text")}
    return {"doc": entry.get("doc"), "text": entry.get("text"), "part": part}


def describe_passage(passage: ReviewPassage, placed: Sequence[int]) -> Values:
    """Return a passage, with the entries of the evidence that its marked pieces belong to, ``placed`` by span."""
    return {
        "doc": passage.doc,
        "title": passage.title,
        "start": passage.start,
        "end": passage.end,
        "whole": passage.whole,
        "pieces": [
            {"start": piece.start, "text": piece.text, "marks": [placed[mark] for mark in piece.marks]}
            for piece in passage.pieces
        ],
    }


@contextmanager
def redirect_file(url: str) -> Iterator[str]:
    """Yield the URL of a temporary file that redirects to ``url``, readable by the current user only.

    The file is deleted on exit. With it, the token does not appear in the command line of the browser.
    """
    handle, name = tempfile.mkstemp(prefix="ragsmith-review-", suffix=".html")  # with permissions 0600
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(
                f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(url)}"><title>Review</title>\n'
            )
        yield path.as_uri()
    finally:
        path.unlink(missing_ok=True)


def serve_page(server: PageServer, *, browser: bool, say: Callable[[str], None]) -> None:
    """Serve a page until it is ended, and with ``browser`` open it if there is a display; ``say`` gets its address.

    Without a display, a text browser would take over the terminal.
    """
    opens = browser and (sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    with server, redirect_file(server.url) if opens else nullcontext("") as url:
        say(f"review at  {server.url}")
        say("end it on the page, or with Ctrl-C; every decision is stored immediately")
        if url:
            webbrowser.open(url)
        server.serve_forever(poll_interval=0.2)
