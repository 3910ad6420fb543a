"""Graph expansion: search also with relations of the question's entities from the entity graph (Dalton et al. 2014)."""

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import weighted_search
from ragsmith.types import Hits, Question, Search


@query_expansion(
    paper="https://doi.org/10.1145/2600428.2609628",
    choices={"n": (2, 3, 5), "mode": ("fuse", "append"), "weight": (0.5, 0.7)},
    most_chunks=300_000,
)
def graph_expansion(
    question: Question,
    search: Search,
    *,
    entity_graph: EntityGraph,
    n: Count = 3,
    mode: str = "fuse",
    weight: Share = 0.5,
    depth: Count = 20,
) -> Hits:
    """Search also with the ``n`` best relations of the question's entities and their neighbours.

    ``fuse`` searches for each relation and combines the scores, in which the question has the share ``weight``;
    ``append`` appends the relations to the question and searches once. Helps when the answer is one step away from the
    entities that the question names. Costs no call once the graph is built. A question without known entities is
    searched unchanged.
    """
    facts = entity_graph.facts(question.text, n)
    if mode == "append" or not facts:
        return search((" ".join((question.text, *facts)),))[0][:depth]
    return weighted_search(search, question, facts, weight)[:depth]
