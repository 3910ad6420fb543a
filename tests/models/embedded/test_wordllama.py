import pickle
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ragsmith.digest import fingerprint
from ragsmith.models.embedded.wordllama import TOKENIZER, WordLlamaEmbedder

EMBEDDER = WordLlamaEmbedder()
WHOLE = Tokenizer.from_file(str(Path(find_spec("wordllama").submodule_search_locations[0], TOKENIZER)))
TEXTS = (
    "The limitation period starts when the claimant knows of the damage.",
    "Ein kurzer Satz – mit Gedankenstrich, «Anführung» und 日本語.",
    "x",
    "A trade secret is information that derives value from not being generally known. " * 12,
    "\tTabs\n\nand   runs of spaces </s> <s>",
)

REFERENCE = """
import sys, logging
from pathlib import Path
import numpy as np
import wordllama
model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
np.save(sys.argv[1], np.concatenate([model.embed([text], norm=True) for text in sys.argv[2:]]))
"""


def test_vectors_are_those_of_wordllama_itself(tmp_path: Path) -> None:
    # in a process of its own: importing wordllama configures logging
    file = tmp_path / "vectors.npy"
    subprocess.run([sys.executable, "-c", REFERENCE, str(file), *TEXTS], check=True, capture_output=True)
    np.testing.assert_allclose(EMBEDDER.embed(TEXTS), np.load(file), atol=2e-7)


def test_rows_have_length_one_and_a_text_without_tokens_a_zero_row() -> None:
    vectors = EMBEDDER.embed(["", *TEXTS])
    assert vectors.dtype == np.float32
    assert vectors.shape == (6, 256)
    assert not vectors[0].any()
    np.testing.assert_allclose(np.linalg.norm(vectors[1:], axis=1), 1.0, atol=1e-6)
    assert EMBEDDER.embed([]).shape == (0, 256)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=6), st.data())
def test_a_vector_does_not_depend_on_its_batch(texts: list[str], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(texts))))
    alone = np.concatenate([EMBEDDER.embed([text]) for text in texts])
    together = EMBEDDER.embed([*(texts[i] for i in order), *TEXTS])
    assert together[: len(texts)].tobytes() == alone[order].tobytes()


WORDS = st.sampled_from(
    ["", " ", "  ", "a", "Recht", "§", "日本", "\n\n", "\t", "</s>", "<s", "▁", "E14", "naïve", "🙂"]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS | st.text(max_size=8), max_size=8), st.sampled_from(["", " "]))
def test_tokens_are_those_of_the_whole_text(parts: list[str], blank: str) -> None:
    text = blank.join(parts)
    assert EMBEDDER.tokens(text) == WHOLE.encode(text, add_special_tokens=False).ids


def test_vocabulary_spells_the_tokens() -> None:
    forms = EMBEDDER.vocabulary()
    assert len(forms) == len(EMBEDDER.vocabulary_vectors()) == 32_000
    assert "".join(forms[i] for i in EMBEDDER.tokens("burden of proof")) == "▁burden▁of▁proof"


def test_identity_names_the_model_and_the_installed_version() -> None:
    code = fingerprint("ragsmith.models.embedded.wordllama", "WordLlamaEmbedder")
    assert EMBEDDER.id == f"wordllama:l2_supercat_256@{version('wordllama')}:{version('tokenizers')}:{code}"


def test_it_travels_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(EMBEDDER))
    assert copy.id == EMBEDDER.id
    assert copy.embed(TEXTS).tobytes() == EMBEDDER.embed(TEXTS).tobytes()


def test_wordllama_is_never_imported() -> None:
    code = (
        "import sys, logging; from ragsmith.models.embedded.wordllama import WordLlamaEmbedder;"
        "WordLlamaEmbedder().embed(['text']); assert 'wordllama' not in sys.modules; assert not logging.root.handlers"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
