"""The strict YAML loader: YAML 1.2 scalars, line numbers, and one sentence for everything it refuses."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import SpaceError
from ragsmith.text.strict_yaml import MAX_BYTES, YamlError, parse_yaml, read_yaml, unknown_key_message


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("007", "007"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("-42", -42),
        ("0", 0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-2.25", -2.25),
        ("'1'", "1"),
        ('"true"', "true"),
        ("NaN", "NaN"),
    ],
)
def test_scalars_follow_yaml_1_2(written, value):
    read = parse_yaml(f"key: {written}", "space.yaml").data
    assert read == {"key": value}
    assert isinstance(read, dict)
    assert type(read["key"]) is type(value)


def test_every_value_knows_its_line():
    tree = parse_yaml("name: a\n\nfamilies:\n  reranking:\n    - none\n    - depth: 20\n      model: x\n", "space.yaml")
    assert tree.data == {"name": "a", "families": {"reranking": ["none", {"depth": 20, "model": "x"}]}}
    assert tree.line() == 1
    assert tree.line("families") == 3
    assert tree.line("families", "reranking", 0) == 5
    assert tree.line("families", "reranking", 1, "model") == 7
    assert tree.where("families", "reranking") == "space.yaml:4"


def test_the_line_of_something_missing_is_that_of_its_parent():
    tree = parse_yaml("a: 1\nb:\n  c: 2\n", "f.yaml")
    assert tree.line("b", "missing", 3) == 2


REFUSED = [
    ("a: 1\nb: 2\na: 3", "f.yaml:3: duplicate key 'a', first on line 1; keep one of them"),
    ("x:\n  b: 1\n  b: 2", "f.yaml:3: duplicate key 'b', first on line 2; keep one of them"),
    ("a: !!python/name:os.system x", "f.yaml:1: the tag '!!python/name:os.system' is not allowed; remove it"),
    ("a: !!int 3", "f.yaml:1: the tag '!!int' is not allowed; remove it"),
    ("a: 1\nb: &x 1", "f.yaml:2: the anchor 'x' is not allowed; write the value out"),
    ("a: *x", "f.yaml:1: the alias 'x' is not allowed; write the value out"),
    ("<<: {a: 1}", "f.yaml:1: merge keys (<<) are not allowed; write the keys out"),
    ("a: 1\n---\nb: 1", "f.yaml:2: a second document starts here; keep one document a file"),
    ("%YAML 1.1\n---\na: 1", "f.yaml:1: directives (%YAML, %TAG) are not allowed; remove the line"),
    ("a: .nan", "f.yaml:1: .nan is not a finite number; write one, or put it in quotes"),
    ("a: -.inf", "f.yaml:1: -.inf is not a finite number; write one, or put it in quotes"),
    ("a: 1e999", "f.yaml:1: 1e999 is too large for a number; write a finite one"),
    (f"a: {'9' * 19}", "f.yaml:1: the integer has more than 18 digits; put it in quotes if it is text"),
    ("a: 1\n2: b", "f.yaml:2: the key '2' must be text; put it in quotes"),
    ("no: a\nnull: b", "f.yaml:2: the key 'null' must be text; put it in quotes"),
    ("[a]: 1", "f.yaml:1: a key must be text, not a list or a mapping; write a name"),
    ("a:\n" + "[" * 50, "f.yaml:2: nested more than 20 levels deep; flatten it"),
    ("- " * 100_000, "f.yaml:1: nested more than 20 levels deep; flatten it"),
    ("a: 1\nb: \x07", "f.yaml:2: control character U+0007; remove it"),
    ('a: "\\0"', "f.yaml:1: control character U+0000 in a text; remove it"),
    ('a: 1\nb: "\\ud800"', "f.yaml:2: control character U+D800 in a text; remove it"),
    ("a: b: c", "f.yaml:1: not valid YAML: mapping values are not allowed here"),
    ("a:\n\t- b", "f.yaml:2: not valid YAML: "),
    ("a: [1,\n2", "f.yaml:2: not valid YAML: "),
    ('a: "\\U00110000"', "f.yaml:1: not valid YAML: a number or escape is out of range after this line"),
    ("x" * (MAX_BYTES + 1), "f.yaml: is longer than the limit of 1,048,576 characters; split it"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message[7:50] for _, message in REFUSED])
def test_refuses_with_file_line_and_one_sentence(text, message):
    with pytest.raises(YamlError) as refusal:
        parse_yaml(text, "f.yaml")
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200


def test_bombs_are_refused_before_they_unfold():
    aliases = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*{p}, *{p}]\n" for p, n in zip("abcdef", "bcdefg", strict=True))
    with pytest.raises(YamlError, match="the anchor 'a' is not allowed"):
        parse_yaml(aliases, "f.yaml")


def test_reads_a_file_and_names_it(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_bytes("name: Prüfung\n".encode())
    assert read_yaml(path).data == {"name": "Prüfung"}
    path.write_bytes(b"name: a\ntitle: \xff\n")
    with pytest.raises(YamlError) as refusal:
        read_yaml(path)
    assert str(refusal.value) == f"{path}:2: byte 0xff at offset 15 is not UTF-8; save the file as UTF-8"
    with pytest.raises(YamlError, match=r"none\.yaml: is missing"):
        read_yaml(tmp_path / "none.yaml")


def test_a_large_file_is_not_read(tmp_path):
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(YamlError, match="larger than the limit of 1 MiB"):
        read_yaml(path)


def test_an_unknown_key_is_answered_with_a_near_one():
    message = unknown_key_message("licens", ["name", "licence"])
    assert message == "unknown key 'licens'; did you mean 'licence'? known: licence, name"
    assert unknown_key_message("zzz", ["name"]) == "unknown key 'zzz'; known: name"


def test_a_mapping_is_given_or_refused_with_its_line():
    tree = parse_yaml("a: {b: 1}\nc: 2\nd:\n", "f.yaml", SpaceError)
    assert tree.mapping(known=("a", "c", "d"))["a"] == tree.mapping(("a",), known=("b",)) == {"b": 1}
    assert tree.mapping(("e",), optional=True) == {}

    def refusal(*path, form=""):
        with pytest.raises(SpaceError) as refused:
            tree.mapping(path, known=("bb",), form=form)
        return str(refused.value)

    assert refusal("a") == "f.yaml:1: unknown key 'b'; did you mean 'bb'? known: bb"
    assert refusal("c") == "f.yaml:2: 'c' must be 'name: value' pairs, not 2"
    assert refusal("d", form="d is a price") == "f.yaml:3: d is a price"
    assert refusal("a", "e") == "f.yaml:1: 'e' is missing"


@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_an_empty_file_is_refused_with_the_form_that_it_should_have(text):
    with pytest.raises(SpaceError, match=r"^f\.yaml:1: the file is empty; a price is a number$"):
        parse_yaml(text, "f.yaml", SpaceError).mapping(form="a price is a number")


def refusal_of(text):
    """Return why a text is refused, if it is."""
    try:
        parse_yaml(text, "f.yaml")
    except YamlError as error:
        return str(error)
    return None


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab1:-?[]{}&*!|>'\"%@`#,. \n\t\\U<~\x85\u2028é"), max_size=60))
def test_any_text_is_a_tree_or_a_yaml_error(text):
    outcome = refusal_of(text)
    assert outcome is None or (outcome.startswith("f.yaml:") and "\n" not in outcome)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(plain)
def test_json_is_read_as_json(value):

    assert parse_yaml(json.dumps({"value": value}, ensure_ascii=False), "f.yaml").data == {"value": value}
