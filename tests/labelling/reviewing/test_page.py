"""The page of a review, as a browser talks to it; what it looks like, `benchmarks/bench_review.py` shows."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from drafted import FACTS, drafted_dataset, drafted_row, rows_of, text_of, write_rows

from ragsmith.errors import UsageError
from ragsmith.labelling.reviewing.decisions import Accept
from ragsmith.labelling.reviewing.journal import FolderDisk
from ragsmith.labelling.reviewing.page.server import ReviewServer, describe_draft, page
from ragsmith.labelling.reviewing.review import Review

JSON = {"Content-Type": "application/json"}
NASTY = "</script><img src=x onerror=alert(1)>"


class Browser:
    """Talks to a page as one browser does."""

    def __init__(self, url: str) -> None:
        self.url = urlsplit(url)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(str(self.url.netloc), timeout=10)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()
        finally:
            connection.close()

    def get(self, name: str) -> tuple[int, Any]:
        status, _, data = self.request("GET", self.url.path + name)
        return status, json.loads(data)

    def post(self, name: str, **body: Any) -> tuple[int, Any]:
        status, _, data = self.request("POST", self.url.path + name, json.dumps(body).encode(), JSON)
        return status, json.loads(data)

    def draft(self, id_: str, more: int = 0) -> Any:
        status, draft = self.get(f"draft?id={quote(id_)}&more={more}")
        assert status == 200
        return draft

    def decide(self, id_: str, decision: str, **more: Any) -> tuple[int, Any]:
        seen = more.pop("seen", None) or self.draft(id_)["seen"]
        return self.post("decide", id=id_, seen=seen, decision=decision, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    nasty = drafted_row(90, question=f"What is {NASTY}?")
    nowhere = drafted_row(91, answer=None, answerable=False, evidence=[], question="Is a lantern carried to the moat?")
    return drafted_dataset(tmp_path / "yard", 6, nasty, nowhere)


@pytest.fixture
def server(folder: Path) -> Iterator[ReviewServer]:
    with Review.open(folder) as review, ReviewServer(review, "ada") as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def browser(server: ReviewServer) -> Browser:
    return Browser(server.url)


def test_the_page_is_one_file_that_fetches_nothing_else(browser: Browser) -> None:
    status, headers, data = browser.request("GET", browser.url.path)
    text = data.decode()
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert re.findall(r"(?:src|href)=\"([^\"]*)", text) == ["data:,"]
    assert not re.search(r"https?://|@import|url\(", text)
    assert NASTY not in text
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert policy.count("'sha256-") == 2
    assert "unsafe" not in policy
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")


def test_the_script_writes_texts_and_never_markup() -> None:
    text = page()[0].decode()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)


def test_it_listens_on_this_machine_alone(server: ReviewServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 20


def test_another_address_name_kind_or_origin_is_refused(browser: Browser, folder: Path) -> None:
    path = browser.url.path
    seen = browser.draft("draft-001")["seen"]
    body = json.dumps({"id": "draft-001", "seen": seen, "decision": "accept"}).encode()
    refused = [
        browser.request("GET", "/"),
        browser.request("GET", "/wrong-token/state"),
        browser.request("GET", f"{path}../etc/passwd"),
        browser.request("GET", f"{path}state", headers={"Host": "evil.example"}),
        browser.request("GET", f"{path}state", headers={"Host": "127.0.0.1"}),
        browser.request("POST", f"{path}decide", body, {"Content-Type": "text/plain"}),
        browser.request("POST", f"{path}decide", body, {**JSON, "Origin": "https://evil.example"}),
        browser.request("POST", f"{path}decide", body, {**JSON, "Host": "evil.example"}),
        browser.request("POST", f"{path}decide", b"{", JSON),
        browser.request("POST", f"{path}decide", b"[]", JSON),
        browser.request("POST", f"{path}decide", b"", {**JSON, "Content-Length": f"{(1 << 20) + 1}"}),
        browser.request("POST", f"{path}nothing", b"{}", JSON),
        browser.request("PUT", f"{path}decide", body, JSON),
    ]
    assert [status for status, _, _ in refused] == [404, 404, 404, 403, 403, 403, 403, 403, 400, 400, 413, 404, 501]
    assert not (folder / "review.jsonl").exists()
    own = {**JSON, "Origin": f"http://{browser.url.netloc}"}
    assert browser.request("POST", f"{path}decide", body, own)[0] == 200


def test_the_least_certain_comes_first_and_written_questions_do_not_come(browser: Browser) -> None:
    status, state = browser.get("state")
    assert (status, state["name"], state["reviewer"]) == (200, "The yard", "ada")
    doubts = [draft["doubt"] for draft in state["drafts"]]
    assert doubts == sorted(doubts, reverse=True)
    assert "written-1" not in {draft["id"] for draft in state["drafts"]}
    assert len(state["drafts"]) == 8


def test_a_draft_comes_with_its_passage_and_the_quote_marked(browser: Browser) -> None:
    draft = browser.draft("draft-001")
    [passage] = draft["passages"]
    assert passage["title"] == "The mill"
    assert "".join(piece["text"] for piece in passage["pieces"]) == text_of("mill")[passage["start"] : passage["end"]]
    assert [piece["text"] for piece in passage["pieces"] if piece["marks"] == [0]] == [FACTS[1]]
    assert [text_of("mill").startswith(piece["text"], piece["start"]) for piece in passage["pieces"]] == [True] * 3


def test_of_what_is_said_to_be_unanswerable_the_passage_that_may_answer_is_shown(browser: Browser) -> None:
    draft = browser.draft("draft-091")
    assert draft["answerable"] is False
    assert FACTS[2] in "".join(piece["text"] for passage in draft["passages"] for piece in passage["pieces"])


def test_decisions_are_kept_at_once(browser: Browser, folder: Path) -> None:
    assert browser.decide("draft-000", "accept")[1]["draft"]["state"] == "accepted"
    assert browser.decide("draft-001", "reject", reason="too vague")[0] == 200
    quote = {"doc": "harbour", "text": "carry fire", "start": text_of("harbour").index("carry fire")}
    status, reply = browser.decide("draft-002", "mend", question="When?", answer="Now.", evidence=[0, quote])
    assert (status, reply["draft"]["state"]) == (200, "mended")
    rows = rows_of(folder)
    assert rows["draft-000"]["origin"]["reviewer"] == "ada"
    assert rows["draft-002"]["evidence"][1] == {**quote, "end": quote["start"] + 10}
    assert rows_of(folder, "rejected.jsonl")["draft-001"]["reviewer"] == "ada"
    assert "draft-001" not in rows
    draft = browser.draft("draft-002")
    assert (
        browser.post("reopen", id="draft-002", seen=draft["seen"])[1]["draft"]["question"] == drafted_row(2)["question"]
    )
    assert rows_of(folder)["draft-002"] == drafted_row(2)


def test_what_cannot_be_mended_is_said_and_nothing_changes(browser: Browser, folder: Path) -> None:
    before = (folder / "questions.jsonl").read_bytes()
    status, reply = browser.decide("draft-002", "mend", question=" ", evidence=[{"doc": "mill", "text": "nowhere"}])
    assert status == 422
    assert len(reply["problems"]) == 2
    for body in ({"decision": "burn"}, {"decision": "mend", "evidence": ["x"]}, {"decision": "mend", "question": 7}):
        assert browser.decide("draft-002", **body)[0] == 400  # type: ignore[arg-type]
    assert browser.post("decide", decision="accept")[0] == 400
    assert browser.post("decide", id="nothing", seen="", decision="accept")[0] == 400
    assert (folder / "questions.jsonl").read_bytes() == before


def test_a_decision_about_an_earlier_state_is_refused(browser: Browser, folder: Path) -> None:
    seen = browser.draft("draft-003")["seen"]  # a second tab
    assert browser.decide("draft-003", "accept")[0] == 200
    status, reply = browser.decide("draft-003", "reject", seen=seen)
    assert (status, reply["draft"]["state"]) == (409, "accepted")
    assert "draft-003 has changed since it was shown" in reply["error"]
    assert "draft-003" in rows_of(folder)


def test_evidence_in_several_places_is_shown_once(folder: Path) -> None:
    rows = rows_of(folder)
    first = rows["draft-004"]["evidence"][0]
    other = next(row["evidence"][0] for row in rows.values() if row["evidence"][0]["doc"] != first["doc"])
    write_rows(
        folder, [*({**rows, "draft-004": {**rows["draft-004"], "evidence": [{"any": [first, other]}]}}.values())]
    )
    with Review.open(folder) as review:
        (shown,) = describe_draft(review, review.draft("draft-004"))["evidence"]
        texts = sorted((place["doc"], place["text"]) for place in (first, other))
        assert (shown["doc"], shown["text"], shown["found"]) == (
            texts[0][0],
            f"{texts[0][1]} (also in {texts[1][0]})",
            True,
        )
        review.decide("draft-004", Accept(), reviewer="ada")
    assert rows_of(folder)["draft-004"]["evidence"] == [{"any": [first, other]}]


def test_what_was_typed_is_there_after_the_process_is_gone(folder: Path) -> None:
    typed = {"question": "Half a ques", "answer": "Half", "evidence": []}
    with Review.open(folder) as review:
        review.begin("draft-004", typed, reviewer="ada", looked_at=review.draft("draft-004").seen)
    with Review.open(folder) as review:
        assert describe_draft(review, review.draft("draft-004"))["typed"] == {**typed, "stale": False}
        review.begin("draft-004", {}, reviewer="ada")  # given up
        assert describe_draft(review, review.draft("draft-004"))["typed"] is None
    assert "draft-004" in rows_of(folder)


def test_what_was_typed_about_an_earlier_state_is_said_and_not_kept(browser: Browser) -> None:
    seen = browser.draft("draft-004")["seen"]
    browser.decide("draft-004", "accept")
    status, reply = browser.post("begin", id="draft-004", seen=seen, question="Half a ques")
    assert (status, reply["draft"]["state"], browser.draft("draft-004")["typed"]) == (409, "accepted", None)
    assert browser.post("begin", id="draft-004", seen=reply["draft"]["seen"], question="Half a ques")[0] == 200


def test_more_of_the_document_is_shown_on_demand(tmp_path: Path) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    long = "".join(f"Line {number} of the book.\n" for number in range(2000))
    (folder / "documents" / "book.md").write_text(long)
    start = long.index("Line 1000 of")
    evidence = [{"doc": "book", "start": start, "end": start + 9, "text": "Line 1000"}]
    (folder / "questions.jsonl").write_text(
        json.dumps(drafted_row(1, evidence=evidence, origin={"by": "drafted"})) + "\n"
    )
    review = Review.open(folder)
    draft = review.draft("draft-001")
    shown = [review.passages(draft, more)[0] for more in range(3)]
    assert [len(passage.text) for passage in shown] == sorted({len(passage.text) for passage in shown})
    assert all(long[passage.start : passage.end] == passage.text for passage in shown)
    assert not any(passage.whole for passage in shown)
    assert review.passages(draft, 50)[0].whole


class FullDisk(FolderDisk):
    """A folder in which a file has no space while it is ``full``, nor a line unless ``lines`` have."""

    full = True
    lines = False

    def append(self, name: str, data: bytes) -> None:
        if self.full and not self.lines:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(name, data)

    def replace(self, name: str, data: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().replace(name, data)


def test_a_full_disk_decides_nothing_and_is_said(server: ReviewServer, browser: Browser, folder: Path) -> None:
    disk = server.review._journal.disk
    server.review._journal.disk = FullDisk(folder)
    status, reply = browser.decide("draft-001", "accept")
    assert (status, "No space left" in reply["error"]) == (507, True)
    server.review._journal.disk = disk
    assert browser.draft("draft-001")["state"] == "pending"


def address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", process.stderr.readline())
    assert found
    return found[0]


def test_the_command_serves_until_the_page_or_ctrl_c_ends_it(
    spawn: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    process = spawn("dataset", "review", folder, "--no-browser", "--reviewer", "ada", "--json")
    browser = Browser(address(process))
    browser.decide("draft-001", "accept")
    assert browser.post("finish")[0] == 200
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert json.loads(out) == {"folder": str(folder), "pending": 7, "accepted": 1, "mended": 0, "rejected": 0}
    process = spawn("dataset", "review", folder, "--no-browser")
    browser = Browser(address(process))
    second = spawn("dataset", "review", folder, "--no-browser")
    _, err = second.communicate(timeout=30)
    assert (second.returncode, "is being reviewed already: end that review first" in err) == (2, True)
    other = drafted_dataset(folder.parent / "other")
    taken = spawn("dataset", "review", other, "--no-browser", "--port", browser.url.port)
    _, err = taken.communicate(timeout=30)
    assert (taken.returncode, f"port {browser.url.port} cannot be used: Address already in use" in err) == (2, True)
    browser.decide("draft-002", "reject")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, "2 of 8 reviewed" in out, "everything finished is kept" in err) == (130, True, True)


@pytest.mark.skipif(os.name != "posix" or sys.platform == "darwin", reason="a browser that is a script")
def test_a_browser_is_given_a_file_that_nobody_else_can_read_and_no_token(
    spawn: Callable[..., subprocess.Popen[str]], folder: Path, tmp_path: Path
) -> None:
    script, told = tmp_path / "browser", tmp_path / "told"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {told}.part && mv {told}.part {told}\n')
    script.chmod(0o700)
    process = spawn("dataset", "review", folder, BROWSER=f"{script} %s", DISPLAY=":0")
    url = address(process)
    browser = Browser(url)
    assert browser.get("state")[0] == 200  # it serves, so it has opened the browser
    path = Path(urlsplit(told.read_text()).path)
    assert told.read_text() == path.as_uri()
    assert path.stat().st_mode & 0o777 == 0o600
    assert f"url={url}" in path.read_text()
    browser.post("finish")
    process.communicate(timeout=30)
    assert not path.exists()


def test_killed_at_any_moment_it_has_what_it_confirmed(
    spawn: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    confirmed = []
    for number in range(3):
        process = spawn("dataset", "review", folder, "--no-browser")
        browser = Browser(address(process))
        id_ = f"draft-00{number}"
        assert browser.decide(id_, "accept")[0] == 200
        confirmed.append(id_)
        process.kill()
        process.wait()
    assert [id_ for id_ in confirmed if rows_of(folder)[id_]["origin"].get("reviewed") == "accepted"] == confirmed


def test_a_decision_that_is_kept_on_a_full_disk_is_not_said_to_be_lost(tmp_path: Path) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    disk = FullDisk(folder)
    disk.lines = True
    with ReviewServer(Review(folder, "yard", Review.open(folder).documents, disk), "ada") as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        browser = Browser(server.url)
        status, answer = browser.decide("draft-001", "accept")
        assert status == 507
        assert "the decision is saved in review.jsonl" in answer["error"]
        assert "was not saved" not in answer["error"]
        assert browser.get("state")[0] == 200
        disk.full = False
        assert browser.draft("draft-001")["state"] == "accepted"
        server.shutdown()


def test_a_number_of_many_digits_is_refused(browser: Browser) -> None:
    assert browser.get("draft?id=draft-001&more=" + "9" * 5_000)[0] == 400


@pytest.mark.parametrize("name", ["", " ", "x" * 61, "a\x1b"])
def test_a_reviewer_without_a_proper_name_is_refused(folder: Path, name: str) -> None:
    with Review.open(folder) as review, pytest.raises(UsageError, match="is not a valid name of a reviewer"):
        ReviewServer(review, name)
