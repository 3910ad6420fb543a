"""Unknown names are answered with known ones."""

from ragsmith.text.suggest import did_you_mean, nearest


def test_the_nearest_name_ignores_case():
    assert nearest("HYDE", ["hyde", "hype", "none"]) == "hyde"
    assert nearest("reranker", ["reranking", "retrieval"]) == "reranking"
    assert nearest("xyz", ["hyde"]) is None


def test_known_names_are_listed_sorted_and_not_without_end():
    assert did_you_mean("b", ["z", "a"]) == "known: a, z"
    assert did_you_mean("b", []) == "none is known"
    assert did_you_mean("q", [f"n{i:02d}" for i in range(25)]).endswith("n19 and 5 more")
