"""What is hidden in messages, and what is left."""

import logging
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.text.redaction import RedactionFilter, redact_known, redacted, remember_secret

KEY = "a1b2c3d4e5f6"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Authorization: Bearer {KEY}", "Authorization: ***"),
        (f"{{'authorization': 'Bearer {KEY}', 'accept': 'json'}}", "{'authorization': '***', 'accept': 'json'}"),
        (f'{{"x-api-key": "{KEY}", "n": 1}}', '{"x-api-key": "***", "n": 1}'),
        (f"(b'Authorization', b'Bearer {KEY}')", "(b'Authorization', b'***')"),
        (f"api-key={KEY}; path=/", "api-key=***; path=/"),
        (f"sent Bearer {KEY} there", "sent Bearer *** there"),
        (f"GET https://host/v1?key={KEY}&page=2", "GET https://host/v1?key=***&page=2"),
        (f"https://host/v1?page=2&access_token={KEY}", "https://host/v1?page=2&access_token=***"),
        (f"http://me:{KEY}@host:80/v1", "http://***@host:80/v1"),
        (f"http://me:a@{KEY}@host:80/v1", "http://***@host:80/v1"),
        (f"host/db?user=me&passwd={KEY}", "host/db?user=me&passwd=***"),
        ("Incorrect API key provided: sk-proj-0123456789abcdefXYZ.", "Incorrect API key provided: ***."),
        ("HTTP 429: the server is busy", "HTTP 429: the server is busy"),
        ("check its URL, PGPASSWORD, and that it is running", "check its URL, PGPASSWORD, and that it is running"),
        ("the key of success is a tokenizer?", "the key of success is a tokenizer?"),
        ("http://host/a@b", "http://host/a@b"),
        ("give postgresql://USER@HOST/DATABASE", "give postgresql://USER@HOST/DATABASE"),
    ],
)
def test_credentials_are_hidden(text, shown):
    assert redacted(text) == shown


def test_keys_of_the_environment_are_hidden(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", KEY)
    monkeypatch.setenv("KEYBOARD", "qwertyuiop")
    monkeypatch.setenv("LLM_KEY", "ollama")
    assert redacted(f"no {KEY}! qwertyuiop, ollama") == "no ***! qwertyuiop, ollama"


@pytest.mark.parametrize("form", ["tést/{}+x", "tést%2F{}%2Bx".replace("é", "%C3%A9"), "t\\u00e9st/{}+x"])
def test_a_remembered_secret_is_hidden_in_every_form(form):
    remember_secret(f"tést/{KEY}+x")
    assert redacted(f"<{form.format(KEY)}>") == "<***>"


def test_a_short_value_is_no_secret():
    remember_secret("none")
    assert redacted("none of it") == "none of it"


@given(text=st.text(alphabet="key=:&?/@ Bearer\"'xyz-*", max_size=60))
@settings(max_examples=60)
def test_redacting_twice_changes_nothing(text):
    assert redacted(redacted(text)) == redacted(text)


def test_a_log_says_no_secret():
    record = logging.LogRecord("httpx", logging.INFO, "", 1, "POST %s?key=%s", ("http://host", KEY), None)
    assert RedactionFilter().filter(record)
    assert record.getMessage() == "POST http://host?key=***"


def test_a_traceback_in_a_log_says_no_secret():
    remember_secret(KEY)
    try:
        raise ValueError(KEY)
    except ValueError:
        record = logging.LogRecord("httpx", logging.ERROR, "", 1, "failed", None, sys.exc_info())
    assert RedactionFilter().filter(record)
    assert logging.Formatter().format(record).endswith("ValueError: ***")
    assert record.exc_info is None


def test_what_a_model_wrote_loses_known_values_only():
    remember_secret(KEY)
    text = "Send it to http://host/v1?key=yours, with password: hunter2."
    assert redact_known(f"{text} {KEY}") == f"{text} ***"
