"""Unknown names are answered with known ones."""

from ragsmith.text.suggest import did_you_mean, find_nearest_name


def test_the_nearest_name_ignores_case():
    assert find_nearest_name("HYDE", ["hyde", "hype", "none"]) == "hyde"
    assert find_nearest_name("reranker", ["reranking", "retrieval"]) == "reranking"
    assert find_nearest_name("xyz", ["hyde"]) is None


def test_known_names_are_listed_sorted_and_not_without_end():
    assert did_you_mean("b", ["z", "a"]) == "known: a, z"
    assert did_you_mean("b", []) == "none is known"
    assert did_you_mean("q", [f"n{i:02d}" for i in range(25)]).endswith("n19 and 5 more")
