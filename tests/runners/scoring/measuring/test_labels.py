"""Labels in parts."""

from __future__ import annotations

from typing import Any

import pytest

from qualm.runners.scoring.measuring.labels import PARTS, Labels

PARAMS: dict[str, Any] = {
    "metrics": [
        {"label": "auroc", "plugin": "auroc", "args": {"right_from": 0.5}},
        {"label": "auroc@right_from=1", "plugin": "auroc", "args": {"right_from": 1.0}},
        {"label": "ece@bins=5", "plugin": "ece", "args": {"bins": 5}},
        {"label": "set_size", "plugin": "set_size", "args": {}},
        {"label": "accuracy", "plugin": "accuracy", "args": {}},
    ],
    "conformal": [{"label": "ours"}, {"label": "ours/wide"}],
    "calibrators": [{"label": "held_out"}],
}


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("accuracy", {"metric": "accuracy", "higher_is_better": True, "judge": None}),
        ("auroc[perplexity]", {"metric": "auroc", "estimator": "perplexity", "parameters": '{"right_from": 0.5}'}),
        ("auroc@right_from=1[semantic_entropy@nli=hf(artifact=llm/x)]", {"estimator": "semantic_entropy@nli=hf(artifact=llm/x)"}),
        ("set_size[ours/lac]", {"conformal": "ours", "nonconformity": "lac", "higher_is_better": False}),
        ("set_size[ours/wide/mean]", {"conformal": "ours/wide", "nonconformity": "mean"}),
        ("ece@bins=5[ours]", {"conformal": "ours", "nonconformity": None, "estimator": None}),
        ("ece@bins=5[held_out/platt]", {"calibrator": "held_out/platt", "estimator": None, "conformal": None}),
        ("ece@bins=5[held_out/platt/perplexity]", {"calibrator": "held_out/platt", "estimator": "perplexity"}),
    ],
)
def test_parts(label: str, parts: dict[str, Any]) -> None:
    found = Labels(PARAMS).parts(label)
    assert list(found) == list(PARTS)
    assert {name: found[name] for name in parts} == parts


def test_a_metric_that_the_spec_no_longer_has_is_told_by_its_label_alone() -> None:
    found = Labels(PARAMS).parts("mce@bins=5[perplexity]")
    assert found == dict.fromkeys(PARTS) | {"metric": "mce", "estimator": "perplexity"}
    assert Labels(PARAMS).parts("coverage[ours/lac]")["nonconformity"] == "lac"
