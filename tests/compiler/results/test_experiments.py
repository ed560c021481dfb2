from types import SimpleNamespace

import pytest

from qualm.compiler.results import experiments as module
from qualm.compiler.results.experiments import experiments

HEAD = "ab" + "c" * 38


@pytest.fixture
def project(monkeypatch, tmp_path):
    refs = [f"refs/exps/ab/{HEAD[2:]}/first", f"refs/exps/de/{'f' * 38}/others", f"refs/exps/ab/{HEAD[2:]}/second", "refs/exps/exec/x"]
    monkeypatch.setattr(module, "output", lambda root, *words: "\n".join(refs) if words[0] == "for-each-ref" else None)
    monkeypatch.setattr(module, "commit_of", lambda project, name: HEAD if name == "HEAD" else f"commit of {name}")
    results = [{"metric": "ece@bins=10"}, {"metric": "accuracy"}]
    monkeypatch.setattr(module, "diff_commits", lambda project, spec, old, new: ([{"stage": f"{spec} {old} {new}", "change": ""}], results))
    return SimpleNamespace(root=tmp_path, plan=lambda spec: SimpleNamespace(spec="s"))


def test_experiments_of_the_commit_that_is_checked_out_in_their_order(project):
    entries = experiments(project, None)
    assert [entry["name"] for entry in entries] == ["first", "second"]
    assert entries[0]["parameters"][0]["stage"] == f"s {HEAD} commit of first" and len(entries[0]["results"]) == 2


@pytest.mark.parametrize(
    "metrics, kept", [(["ece"], ["ece@bins=10"]), (["accuracy"], ["accuracy"]), (["ece@bins=10"], ["ece@bins=10"]), (["x"], [])]
)
def test_only_the_metrics_that_are_asked_for(project, metrics, kept):
    assert [r["metric"] for r in experiments(project, None, metrics)[0]["results"]] == kept
