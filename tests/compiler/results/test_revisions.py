from qualm.compiler.results.revisions import RESULTS, compared

STAGE = {
    "kind": "score",
    "params": {"metrics": [{"label": "ece", "plugin": "ece", "args": {"bins": 15}}]},
    "inputs": {},
    "outputs": {},
    "seed": 7,
}


def files(results, **stages):
    return {**stages, RESULTS: results}


def test_stages_that_came_and_went_and_parameters_that_changed():
    changed = {**STAGE, "params": {"metrics": [{"label": "ece", "plugin": "ece", "args": {"bins": 10}}]}}
    parameters, results = compared(files({}, score=STAGE, old=STAGE), files({}, score=changed, new=STAGE))
    assert results == [] and [(p["stage"], p["change"]) for p in parameters if p["stage"] != "score"] == [
        ("new", "is new"),
        ("old", "is gone"),
    ]
    (change,) = [p["change"] for p in parameters if p["stage"] == "score"]
    assert "15" in change and "10" in change


def test_results_that_differ_with_their_change():
    old = {"m": {"d": {"ece": 0.25, "acc": 0.5, "gone": 1.0}}}
    new = {"m": {"d": {"ece": 0.5, "acc": 0.5}}, "n": {"d": {"acc": 0.75}}}
    _, results = compared(files(old), files(new))
    assert results == [
        {"model": "m", "dataset": "d", "metric": "ece", "old": 0.25, "new": 0.5, "change": 0.25},
        {"model": "m", "dataset": "d", "metric": "gone", "old": 1.0, "new": None, "change": None},
        {"model": "n", "dataset": "d", "metric": "acc", "old": None, "new": 0.75, "change": None},
    ]
    assert compared(files(old, s=STAGE), files(old, s=STAGE)) == ([], [])
