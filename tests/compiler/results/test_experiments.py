import json
from types import SimpleNamespace

import pytest

from qualm.compiler.results import experiments as module
from qualm.compiler.results.experiments import experiments
from tests.support.projects.finished_project import commit, git

HEAD = "ab" + "c" * 38


@pytest.fixture
def project(monkeypatch, tmp_path):
    refs = [f"refs/exps/ab/{HEAD[2:]}/first", f"refs/exps/de/{'f' * 38}/others", f"refs/exps/ab/{HEAD[2:]}/second", "refs/exps/exec/x"]
    monkeypatch.setattr(module, "output", lambda root, *words: "\n".join(r for r in refs if r.startswith(words[-1])))
    monkeypatch.setattr(module, "commit_of", lambda project, name: HEAD if name == "HEAD" else f"commit of {name.rpartition('/')[2]}")
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


def test_an_experiment_named_like_a_branch_or_like_one_of_another_commit(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    stage, commits = tmp_path / "specs/s/stages/infer-\u00e9.json", []
    stage.parent.mkdir(parents=True)
    for tokens in (1, 2, 3, 4):
        stage.write_text(json.dumps({"params": {"tokens": tokens}}))
        commit(tmp_path)
        commits.append(git(tmp_path, "rev-parse", "HEAD").strip())
    old, head, tried, of_old = commits
    git(tmp_path, "reset", "-q", "--hard", head)
    for start, name, made in ((head, "main", tried), (head, "try", tried), (old, "try", of_old)):
        git(tmp_path, "update-ref", f"refs/exps/{start[:2]}/{start[2:]}/{name}", made)
    entries = experiments(SimpleNamespace(root=tmp_path, plan=lambda spec: SimpleNamespace(spec="s")), None)
    change = [{"stage": "infer-\u00e9", "change": "parameter tokens: 2 -> 3"}]
    assert {entry["name"]: entry["parameters"] for entry in entries} == {"main": change, "try": change}
