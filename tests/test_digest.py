from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import unicodedata
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.digest import VERSION, digest, to_canonical_json
from ragsmith.types import Hit, Scale, Span

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Equality that tells 1, 1.0 and True, and 0.0 and -0.0, apart."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b) and (not isinstance(a, float) or math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, 1.0]}, '{"a":[true,null,1.0],"b":1}'),
        ((1, (2, ())), "[1,[2,[]]]"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e22, "1e+22"),
        (-0.0, "-0.0"),
        ("Straße\n\0", '"Straße\\n\\u0000"'),
        (Scale.BM25, '"bm25"'),
        ({Scale.RRF: 1}, '{"rrf":1}'),
        (Span("d", 0, 5), '{"doc":"d","end":5,"start":0}'),
        (MappingProxyType({"a": (1,)}), '{"a":[1]}'),
        (np.float64(0.1), "0.1"),
        ("cut \ud83d", '"cut \\ud83d"'),
    ],
)
def test_the_form(value: object, text: str) -> None:
    assert to_canonical_json(value) == text
    assert json.loads(text) == json.loads(to_canonical_json(json.loads(text)))


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_a_json_value_comes_back_as_it_was(value: Any) -> None:
    assert same(json.loads(to_canonical_json(value)), value)


@settings(max_examples=60, deadline=None)
@given(JSON, JSON)
def test_different_values_have_different_forms(a: Any, b: Any) -> None:
    assert (to_canonical_json(a) == to_canonical_json(b)) == same(a, b)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=6))
def test_the_order_of_keys_does_not_count(mapping: dict[str, Any]) -> None:
    assert to_canonical_json(dict(reversed(mapping.items()))) == to_canonical_json(mapping)


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec=None, categories=("Cs", "L", "P")), max_size=6))
def test_any_text_can_be_encoded_and_is_told_apart(text: str) -> None:
    form = to_canonical_json(text)
    assert form.encode().decode() == form
    escaped = text.replace("\ud83d", "\\ud83d")
    assert escaped == text or to_canonical_json(escaped) != form


def test_two_halves_of_a_character_are_not_the_character() -> None:
    assert to_canonical_json("\ud83d\ude00") != to_canonical_json("\N{GRINNING FACE}")


class Plain(Enum):
    A = object()


@dataclass
class Mutable:
    x: int = 1


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (b"bytes", "value"),
        ([1, {2}], r"value\[1\]"),
        ({"a": [0, {"b": object()}]}, r"value\['a'\]\[1\]\['b'\]"),
        (Path("x"), "value"),
        (Plain.A, "value"),
        (Mutable(), "value"),
        (Mutable, "value"),
        ({"scores": np.float32(1)}, r"value\['scores'\]"),
        ([np.zeros(2)], r"value\[0\]"),
        ({"a": {1: "x"}}, r"value\['a'\] has the key 1 of type int"),
        ((x for x in "ab"), "value"),
    ],
)
def test_what_json_cannot_say_is_refused_by_place(value: object, place: str) -> None:
    with pytest.raises(TypeError, match=f"^{place}"):
        to_canonical_json(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_a_number_that_is_none_is_refused_by_place(number: float) -> None:
    with pytest.raises(ValueError, match=r"^value\['hits'\]\[0\]\['score'\] is -?(nan|inf)"):
        to_canonical_json({"hits": [{"score": number}]})
    with pytest.raises(ValueError, match=r"^value\[1\]\['score'\]"):
        digest("hits", Hit(chunk=None, score=number, scale=Scale.RRF))  # type: ignore[arg-type]


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="too deeply"):
        to_canonical_json(loop)


def test_the_digest_knows_where_parts_end() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), (["ab", "c"],), ("ab", "c", None), ("ab", "c", ""), ()]
    assert len({digest(*each) for each in parts}) == len(parts)


def test_nfc_and_nfd_text_differ() -> None:
    name = "Rhône"
    assert digest(unicodedata.normalize("NFC", name)) != digest(unicodedata.normalize("NFD", name))


def test_a_digest_is_128_bits_in_hexadecimal_and_stays_what_it_was() -> None:
    """Pinned: a change here turns every cache cold, and needs a new VERSION."""
    by_hand = blake2b(b'ragsmith/1:["ab",{"c":0.5}]', digest_size=16).hexdigest()
    assert digest("ab", {"c": 0.5}) == by_hand == PINNED


def test_a_digest_is_the_same_in_another_process_with_another_hash_seed() -> None:
    code = "from ragsmith.digest import digest; print(digest('ab', {'c': 0.5}))"
    root = str(Path(__file__).resolve().parents[1])
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": root, "LC_ALL": "C"}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == PINNED


PINNED = "27cf542b868de3de8d1333f160f47994"


@pytest.mark.parametrize("number", [0, 1, 16_384, 16_385, 40_000])
def test_a_long_list_has_the_digest_of_its_canonical_json(number: int) -> None:
    parts = "texts", [("d", n, "\ud800") for n in range(number)], tuple(range(number))
    expected = blake2b(f"ragsmith/{VERSION}:{to_canonical_json(parts)}".encode(), digest_size=16).hexdigest()
    assert digest(*parts) == expected


def test_an_error_in_a_long_list_has_the_path_of_the_value() -> None:
    with pytest.raises(TypeError, match=re.escape("value[1][20000] is a set")):
        digest("texts", [*range(20_000), {1}])
