"""Parameters survive the way into JSON and back."""

from qualm.registry.parameters import to_lists, to_mappings

PARAMS = {
    "metrics": [{"label": "accuracy", "plugin": "accuracy", "args": {}}, {"label": "ece", "plugin": "ece", "args": {"bins": 15}}],
    "settings": [{"label": "ours", "scores": [{"label": "aps", "plugin": "aps", "args": {}}], "alpha": 0.1}],
    "variants": [{"variant": "clean", "plugin": None, "args": {}}, {"variant": "blur@radius=1", "plugin": "blur", "args": {"radius": 1.0}}],
    "slices": ["category"],
    "model": {"label": "base", "plugin": "hf_vlm", "args": {"scores": None}},
}


def test_there_and_back() -> None:
    assert to_lists(to_mappings(PARAMS)) == PARAMS


def test_one_parameter_has_one_path() -> None:
    assert to_mappings(PARAMS)["metrics"]["ece"]["args"]["bins"] == 15
    assert to_mappings(PARAMS)["settings"]["ours"]["scores"]["aps"]["plugin"] == "aps"


def test_lists_that_lie_in_json_stay_lists() -> None:
    assert to_lists(PARAMS) == PARAMS
