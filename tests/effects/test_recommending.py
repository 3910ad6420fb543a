"""From effects that are known to pipelines: which is named, at what cost, how sure it is, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from effect_model import learned_from, write

from ragsmith.effects.corpus import CorpusProfile
from ragsmith.effects.knowledge import SHIPPED, Knowledge, read_effects
from ragsmith.effects.recommending import Recommendation, recommend_pipeline, recommend_pipelines
from ragsmith.effects.terms import GROUPS, ModelClasses
from ragsmith.errors import SpaceError, UsageError
from ragsmith.evaluation.fitness import Weights
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.space import Space

CHAT = ModelClasses(generator="chat", controller="chat", judge="chat")


Named = Callable[..., Recommendation]


@pytest.fixture
def named(space: Space, knowledge: Knowledge, prose: CorpusProfile) -> Named:
    """What is recommended for one call a question, with what differs from the world that was made up."""

    def recommend(**changed: Any) -> Recommendation:
        given = {"space": space, "knowledge": knowledge, "corpus": prose, "models": ModelClasses(), "most_calls": 1}
        return recommend_pipeline(**{**given, **changed})

    return recommend


def names(found: Recommendation) -> set[str]:
    return {gene.technique.name for gene in found.candidate} - {"none", "top_k", "listing"}


def test_what_pays_is_named_and_nothing_else(named: Named) -> None:
    found = named(most_calls=None)
    assert names(found) == {"contextual_chunk_headers", "hyde", "complete_hybrid", "cross_encoder"}
    assert found.gain == pytest.approx(0.02 + 0.03 + (0.07 - 0.06) + 0.04, abs=0.02)
    assert found.low < found.gain < found.high
    assert found.calls == pytest.approx(2, abs=0.05)
    assert {reason.option: reason.datasets for reason in found.reasons}["reranking cross_encoder"] == 4
    assert [reason.gain for reason in found.reasons] == sorted((r.gain for r in found.reasons), reverse=True)


def test_one_call_is_the_answers(named: Named) -> None:
    found = named()
    assert names(found) == {"contextual_chunk_headers", "complete_hybrid", "cross_encoder"}
    assert found.calls == 1


def test_calls_that_gain_less_than_their_own_uncertainty_are_saved(named: Named, knowledge: Knowledge) -> None:
    unsure = replace(knowledge, variances={p: replace(v, own=v.own + 0.01) for p, v in knowledge.variances.items()})
    assert named(knowledge=unsure, most_calls=None).calls == 1


def test_what_has_to_be_fitted_is_not_named(named: Named, knowledge: Knowledge) -> None:
    best = replace(
        knowledge,
        observed=tuple(
            replace(
                one,
                means={
                    part: tuple(m + 0.2 * ("sscc" in labels) for m, labels in zip(means, one.pipelines, strict=True))
                    for part, means in one.means.items()
                },
            )
            for one in knowledge.observed
        ),
    )
    assert "sscc" not in names(named(knowledge=best))


def test_with_a_chat_model_only_options_that_ask_none_are_known(
    named: Named, knowledge: Knowledge, prose: CorpusProfile
) -> None:
    embedded, chat = (named(models=models, most_calls=None) for models in (ModelClasses(), CHAT))
    assert "hyde" in names(embedded)
    assert "cross_encoder" in names(chat)
    assert not any("language_model" in gene.technique.tools.values() for gene in chat.candidate)
    assert chat.gain < embedded.gain
    hyde = tuple("hyde" if label == "none" and place == 1 else label for place, label in enumerate(LABELS))
    (known, sure), (unknown, unsure) = (
        knowledge.beliefs(prose, models).gain(hyde, LABELS) for models in (ModelClasses(), CHAT)
    )
    assert (unknown, known > 0.01, unsure > 2 * sure) == (0, True, True)


LABELS = ("none", "none", "complete_hybrid", "none", "top_k", "none", "none", "listing", "none")


def test_an_option_that_was_never_tried_gains_nothing_and_is_unsure(knowledge: Knowledge, prose: CorpusProfile) -> None:
    beliefs = knowledge.beliefs(prose, ModelClasses())
    other = tuple("magic" if label == "top_k" else label for label in LABELS)
    (gain, sd), (_, of_a_known) = (
        beliefs.gain(one, LABELS) for one in (other, tuple("nr" if one == "top_k" else one for one in LABELS))
    )
    assert gain == pytest.approx(0)
    assert sd > 1.5 * of_a_known


def test_other_parameters_are_half_known(knowledge: Knowledge, prose: CorpusProfile) -> None:
    beliefs = knowledge.beliefs(prose, ModelClasses())
    plain = tuple("vector" if label == "complete_hybrid" else label for label in LABELS)
    (known, sure), (half, unsure), (none, lost) = (
        beliefs.gain(tuple(name if label == "complete_hybrid" else label for label in LABELS), plain)
        for name in ("complete_hybrid", "complete_hybrid(k=9)", "magic")
    )
    assert none < half < known
    assert sure < unsure < lost


def test_what_was_worked_out_before_is_what_is_worked_out_anew(knowledge: Knowledge, prose: CorpusProfile) -> None:
    hyde = tuple("hyde" if label == "none" and place == 1 else label for place, label in enumerate(LABELS))
    asked = [
        (corpus, weights)
        for weights in (Weights(), Weights(1.0, 0.0))
        for corpus in (prose, replace(prose, tables=0.9), replace(prose, language="tr"), prose)
    ]
    again = [knowledge.beliefs(corpus, ModelClasses(), weights).gain(hyde, LABELS) for corpus, weights in asked]
    anew = [replace(knowledge).beliefs(corpus, ModelClasses(), weights).gain(hyde, LABELS) for corpus, weights in asked]
    assert again == anew
    assert len(set(anew)) == 6


def test_what_documents_are_unlike_is_said_and_widens(named: Named, prose: CorpusProfile) -> None:
    near, far = named(), named(corpus=replace(prose, tables=0.9, language="de"))
    assert near.unlike == ()
    assert len(far.unlike) == 2
    assert far.sd > 1.3 * near.sd


def test_what_may_lose_much_is_not_named(named: Named, knowledge: Knowledge) -> None:
    """What retrieves gains most where nothing differs, and where data sets differ by it, what is no risk is kept."""
    retrieval = GROUPS.index("retrieval")
    wide = {part: replace(its, own=its.own.copy()) for part, its in knowledge.variances.items()}
    for its in wide.values():
        its.own[retrieval] = 0.1**2
    found = named(knowledge=replace(knowledge, variances=wide))
    assert names(found) == {"contextual_chunk_headers", "bm25", "cross_encoder"}


def test_weights_say_what_counts(named: Named, knowledge: Knowledge) -> None:
    only_g = replace(
        knowledge,
        observed=tuple(
            replace(one, means={**one.means, "retrieval": (0.5,) * len(one.pipelines)}) for one in knowledge.observed
        ),
    )
    both, r, g = (named(knowledge=only_g, weights=weights).gain for weights in (None, Weights(1, 0), Weights(0, 1)))
    assert (r, both) == (pytest.approx(0, abs=1e-3), pytest.approx(g / 2, rel=0.2))


def test_the_target_itself_is_left_out(knowledge: Knowledge) -> None:
    own, another = knowledge.observed[1].sample, tuple(range(1, 400, 2))
    for sample in (own, own[::2], tuple(sorted({*own, *another}))):
        assert [one.name for one in knowledge.without(sample).observed] == ["a", "c", "d"]
    assert len(knowledge.without(another).observed) == 4


def test_of_an_unknown_class_of_embedder_the_known_ones_are_expected_and_it_is_said(named: Named) -> None:
    known, strange = named(), named(models=ModelClasses(embedder="transformer"))
    assert strange.candidate == known.candidate
    assert strange.gain == pytest.approx(known.gain)
    assert strange.sd > known.sd
    assert strange.unlike == (
        "the embedder is of the class transformer, and the effects were learned with those of the class static",
    )


def test_a_space_that_only_dear_pipelines_are_in_is_refused(
    space: Space, knowledge: Knowledge, prose: CorpusProfile
) -> None:
    dear = space.without(lambda gene: gene.technique.family == "query_expansion" and gene.technique.name != "iterative")
    with pytest.raises(SpaceError, match="has no pipeline of at most 1 calls a question"):
        recommend_pipeline(dear, knowledge, prose, ModelClasses(), most_calls=1)
    assert [one.most_calls for one in recommend_pipelines(dear, knowledge, prose, ModelClasses())] == [None]


def test_with_nothing_learned_nothing_is_known(named: Named, knowledge: Knowledge) -> None:
    found = named(knowledge=replace(knowledge, observed=()), most_calls=None)
    assert (found.gain, found.calls) == (0, 1)
    assert names(found) == {"bm25"}  # which is as good as anything else, and no risk
    assert found.unlike == ("no effects were learned from any documents",)


def test_what_was_learned_is_written_and_read(knowledge: Knowledge, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    write(knowledge, first)
    again = read_effects(first)
    write(again, second)
    assert first.read_bytes() == second.read_bytes()
    assert again.observed[0].pipelines == knowledge.observed[0].pipelines
    assert again.stale == ()
    assert replace(again, code={**again.code, "retrieval.nest": "of before"}).stale == ("retrieval.nest",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: not valid JSON: Expecting value at column 1; mend it, or make the file of learned effects anew: "),
        ('{"format": 1,\n"code": }', ":2: not valid JSON: Expecting value at column 9"),
        ('{"format": NaN}', ": not valid JSON: NaN is not a number"),
        ("[]", ": expected a JSON object, found a list"),
        ('{"format": 99}', ": this ragsmith reads format 1 of learned effects, not 99: "),
        ('{"format": 1}', ": this is no file of learned effects: the key 'options' is missing"),
    ],
)
def test_other_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "effects.json"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_effects(file)
    assert str(refused.value).startswith(f"{file}{said}")
    assert str(refused.value).endswith("`tools/effects.py` makes one")
    with pytest.raises(UsageError, match="there is no such file"):
        read_effects(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("path", "to", "place"),
    [
        (("options", 0), "listing", "'options'"),
        (("options", 0), 7, "'options'"),
        (("code",), {"nothing.hyde": "1"}, "'code'"),
        (("variances", "retrieval"), None, "'variances'"),
        (("variances", "retrieval", "general"), [1], "'variances'"),
        (("variances", "retrieval", "rest"), "much", "'variances'"),
        (("made",), {"space": "default"}, "'made'"),
        (("datasets",), 3, "'datasets'"),
        (("datasets", 1), "law", "entry 2 of 'datasets'"),
        (("datasets", 1, "colour"), "red", "entry 2 of 'datasets'"),
        (("datasets", 0, "corpus"), {}, "entry 1 of 'datasets'"),
        (("datasets", 0, "pipelines", 0), [0], "entry 1 of 'datasets'"),
        (("datasets", 0, "pipelines", 0, 0), 10**6, "entry 1 of 'datasets'"),
        (("datasets", 0, "means", "retrieval"), [0.5], "entry 1 of 'datasets'"),
        (("datasets", 0, "noise", "retrieval", 0), None, "entry 1 of 'datasets'"),
        (("datasets", 0, "calls", 0), "one", "entry 1 of 'datasets'"),
        (("checked", 1, "gain"), "some", "entry 2 of 'checked'"),
        (("checked", 0, "pipeline"), None, "entry 1 of 'checked'"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(
    path: tuple[str | int, ...], to: Any, place: str, tmp_path: Path
) -> None:
    plain: Any = json.loads(SHIPPED.read_text())
    within = plain
    for step in path[:-1]:
        within = within[step]
    within[path[-1]] = to
    file = tmp_path / "effects.json"
    file.write_text(json.dumps(plain))
    with pytest.raises(UsageError) as refused:
        read_effects(file)
    said = f"{file}: {place} is not valid in a file of learned effects: `tools/effects.py` makes one"
    assert str(refused.value) == said


def test_one_data_set_cannot_tell_what_is_general(knowledge: Knowledge) -> None:
    with pytest.raises(UsageError, match="2 data sets or more"):
        learned_from(knowledge.observed[:1])


def test_classes_of_models() -> None:
    assert ModelClasses.from_names(ModelNames()) == ModelClasses()
    named = ModelNames("openai:gpt", "sentence-transformers:all", "rerank:some")
    assert ModelClasses.from_names(named) == ModelClasses("chat", "chat", "chat", "transformer", "served")
