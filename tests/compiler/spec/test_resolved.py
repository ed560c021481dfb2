"""What a resolved spec says of itself: what is evaluated, who is scored, who judges, how many cells."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from qualm.compiler.spec.language import PairSet
from qualm.compiler.spec.resolved import ConformalUse, FinetuneUse, PairSetUse, RecipeUse, Resolved
from qualm.registry.plugins import registry
from tests.compiler.spec.resolving import resolve

SPEC = """\
qualm: 1
name: t
datasets:
  z: {card: synthetic_scenes, test: 10}
  a: {card: synthetic_scenes, test: 10, judges: [vqa, exact_match]}
  left: {card: synthetic_scenes, test: 10, evaluate: false}
models:
  b: {hf_vlm: {artifact: x}}
  a-model: {hf_vlm: {artifact: y}, leave_out: [perplexity, semantic_entropy@version=sum]}
judges: [rules, vqa, exact_match]
estimators: [perplexity, semantic_entropy: {version: [frequency, sum]}]
abstentions:
  careful: {thresholding: {criterion: lave_idk_accuracy}, of: [b], fit: test}
  risky: {risk_control: {alpha: [0.1, 0.2]}, of: [a-model, b], fit: half, per: category}
"""


@pytest.fixture(scope="module")
def resolved(tmp_path_factory: pytest.TempPathFactory) -> Resolved:
    return resolve(tmp_path_factory.mktemp("spec"), SPEC)


def test_data_that_models_answer(resolved: Resolved) -> None:
    assert [d.label for d in resolved.data] == ["a", "left", "z"]
    assert [d.label for d in resolved.evaluated] == ["a", "z"]
    asked, left_out = (PairSetUse(label, PairSet(recipes=[]), evaluate, {}, ()) for label, evaluate in (("m", True), ("n", False)))
    pairs = replace(resolved, pairs=(asked, left_out))
    assert [d.label for d in pairs.data] == ["a", "left", "z", "m", "n"] and [d.label for d in pairs.evaluated] == ["a", "m", "z"]


def test_judges_of_a_data_set_in_its_order_or_the_spec_s(resolved: Resolved) -> None:
    one, _, other = resolved.data
    assert resolved.judges_of(one) == ["vqa", "exact_match"]
    assert resolved.judges_of(other) == ["rules", "vqa", "exact_match"]


def test_every_name_that_scores_have(resolved: Resolved) -> None:
    assert resolved.scored_models == [
        "a-model", "b", "b+careful (optimistic)", "a-model+risky@alpha=0.1", "b+risky@alpha=0.1", "a-model+risky@alpha=0.2",
        "b+risky@alpha=0.2",
    ]  # fmt: skip


def test_an_abstention_as_its_stage_is_told(resolved: Resolved) -> None:
    told = [use.as_json() for use in resolved.abstentions]
    assert [t["label"] for t in told] == ["careful", "risky@alpha=0.1", "risky@alpha=0.2"]
    assert told[0]["plugin"] == "thresholding" and told[0]["of"] == ["b"] and told[0]["args"]["criterion"] == "lave_idk_accuracy"
    assert {key: told[1][key] for key in ("fit", "per", "confidence", "seed")} == {
        "fit": "half", "per": "category", "confidence": "kept", "seed": 42,
    }  # fmt: skip


def test_estimators_that_a_model_is_not_asked_for(resolved: Resolved) -> None:
    asked = {m.ref.label: [e.label for e in resolved.estimators if m.asked_for(e)] for m in resolved.models}
    assert asked == {
        "a-model": ["semantic_entropy@version=frequency"],
        "b": ["perplexity", "semantic_entropy@version=frequency", "semantic_entropy@version=sum"],
    }


def test_nothing_of_a_resolved_spec_can_be_changed(resolved: Resolved) -> None:
    """Plans, forecasts and reports share one."""
    ref = _ref(registry.get("pairs", "from_caption"))
    others = [
        RecipeUse(ref, (), "c", {}),
        PairSetUse("p", PairSet(recipes=[]), True, {}, ()),
        FinetuneUse(ref, (), ()),
        ConformalUse("c", (), {}),
    ]
    for thing in (resolved, resolved.datasets[0], resolved.models[0], resolved.abstentions[0], *others):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, fields(thing)[0].name, None)


def test_what_pairs_are_made_of_has_each_name_once() -> None:
    recipe = registry.get("pairs", "from_caption")
    uses = [RecipeUse(ref, datasets, "c", {}) for ref, datasets in ((_ref(recipe), ("z", "a")), (_ref(recipe), ("a", "b")))]
    pairs = PairSetUse("p", PairSet(recipes=[]), True, {}, tuple(uses))
    assert pairs.sources == ("z", "a", "b")


def _ref(plugin: registry.Plugin):  # type: ignore[no-untyped-def]
    from qualm.compiler.spec.plugin_ref import Ref

    return Ref(plugin.name, plugin, {})
