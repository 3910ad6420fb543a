"""What query expansions that search with the replies of a language model have in common."""

import pytest

from ragsmith.techniques.query_expansion.decomposition import decomposition
from ragsmith.techniques.query_expansion.dual_path import dual_path
from ragsmith.techniques.query_expansion.hyde import hyde
from ragsmith.techniques.query_expansion.multi_prose import multi_prose
from ragsmith.techniques.query_expansion.multi_query import multi_query
from ragsmith.techniques.query_expansion.query_rewriting import query_rewriting
from ragsmith.techniques.query_expansion.rag_fusion import rag_fusion
from ragsmith.techniques.query_expansion.step_back import step_back
from ragsmith.testing import ScriptedModel
from ragsmith.types import Question

QUESTION = Question("Who pays?")
EXPANSIONS = (*(decomposition, dual_path, hyde, multi_prose, multi_query, query_rewriting, rag_fusion, step_back),)

every_expansion = pytest.mark.parametrize("expand", EXPANSIONS)


def replying(reply):
    """A model that always replies with the same text."""
    one = {name: [(reply,)] for name in ("sub_questions", "paraphrase_question", "related_questions")}
    one |= {name: [reply] for name in ("imagine_passage", "rewrite_query", "broader_question")}
    return ScriptedModel(one | {"imagine_framed_passage": [reply] * 3})


@every_expansion
def test_the_fused_list_is_cut(search, hits, expand):
    found = search(hits(range(9, 0, -1)))
    assert len(expand(QUESTION, found, language_model=replying("Who owes?"), depth=4)) == 4
    assert "Who owes?" in found.queries


@every_expansion
def test_a_reply_that_repeats_the_question_changes_nothing(search, hits, expand):
    found = search(hits([0.9, 0.5]))
    assert expand(QUESTION, found, language_model=replying(QUESTION.text)) == hits([0.9, 0.5])
    assert found.queries == (QUESTION.text,)
