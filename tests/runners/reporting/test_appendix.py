"""How a report was made stands at its end: intervals, decoding, models with digests; commit, machine and time beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualm.runners.reporting.appendix import facts_of, model_row
from qualm.runners.reporting.load import read_results
from qualm.runners.runtime.stamp import facts_in_words, picture, read_stamp, write_stamp
from qualm.runners.stages.report import render
from tests.support.processes.chromium import Chromium
from tests.support.projects.finished_project import git

MODEL = {"name": "large", "plugin": "hf_vlm", "files": "registry/data/weights"}
ARGS = {"artifact": "registry/data/weights", "dtype": "float32", "hub": None, "revision": None, "quantization": "none", "adapter": "extra"}
MADE = {
    "interval": {"bootstrap": 1000, "level": 0.9},
    "compare": {"permutations": 2000, "correction": "holm", "family": "metric"},
    "decoding": {"max_new_tokens": 16, "draws": 10, "temperature": 0.7, "top_p": 0.95},
    "confidence": "verify",
    "models": [MODEL | {"args": ARGS}],
}


def test_all_of_it_stands_in_the_page(fabricate: Callable[..., Any]) -> None:
    page = render(read_results(fabricate(n=20).stage(made=MADE))).decode().replace("&#39;", "'")
    for fact in (
        "90% intervals from 1,000 bootstrap resamples of whole groups",
        "Under each value its interval (90% ",
        'Pointing at a value shows its n and groups. <b class="best">Bold</b>: told apart from every other row of its column.',
        "2,000 random exchanges within groups; p-values corrected by Holm's method over the tests of one metric on one data set and slice",
        "greedy, at most 16 new tokens; 10 draws at temperature 0.7, top_p 0.95",
        "registry/data/weights",
        "float32",
        "adapter: extra",
        "ab" * 32,
        'src="../../.qualm/runs/small/made.svg"',
    ):
        assert fact in page, fact
    assert render(read_results(fabricate(n=20).stage(made=MADE))).decode().replace("&#39;", "'") == page


def test_digests_are_those_of_the_entries(tmp_path: Path) -> None:
    (tmp_path / "registry/data").mkdir(parents=True)
    about = MODEL | {"args": ARGS}
    assert model_row(about, tmp_path)[2:5] == ["registry/data/weights", "not added here", "float32"]
    (tmp_path / "registry/data/weights.dvc").write_text("outs:\n- md5: 0123abc.dir\n  path: weights\n")
    assert model_row(about, tmp_path)[3] == "md5 0123abc.dir"
    (tmp_path / "registry/data/weights.dvc").write_text("outs: {")
    assert model_row(about, tmp_path)[3] == "not readable"
    hub = MODEL | {"files": None, "args": ARGS | {"hub": "org/name", "revision": "abc123"}}
    assert model_row(hub, tmp_path)[2:4] == ["org/name", "revision abc123"]


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"interval": {"bootstrap": 0, "level": 0.95}}, ("Intervals", "none: bootstrap: 0")),
        ({"decoding": {"max_new_tokens": 8}}, ("Decoding", "greedy, at most 8 new tokens; no draws")),
        ({"models": [{"plugin": "recorded"}]}, ("Decoding", "none here: all answers were recorded elsewhere")),
    ],
)
def test_what_there_was_none_of_is_said(changes: dict[str, Any], fact: tuple[str, str]) -> None:
    assert fact in list(facts_of(MADE | changes))


def test_the_commit_is_beside_the_page_and_not_in_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("x")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "work")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    assert read_stamp("small", tmp_path) is None
    write_stamp("small", tmp_path)
    facts = read_stamp("small", tmp_path)
    assert facts is not None and dict(facts_in_words(facts))["Git commit"] == commit
    (tmp_path / "file").write_text("y")
    write_stamp("small", tmp_path)
    assert dict(facts_in_words(read_stamp("small", tmp_path) or {}))["Git commit"] == f"{commit} with uncommitted changes"
    assert commit in (tmp_path / ".qualm/runs/small/made.svg").read_text()
    assert "&lt;b&gt;" in picture(facts | {"processor": "<b>"})


def test_a_browser_shows_the_commit_where_the_record_lies(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    page = tmp_path / "results/small/report.html"
    page.parent.mkdir(parents=True)
    page.write_bytes(render(read_results(fabricate(n=20).stage(made=MADE))))
    write_stamp("small", tmp_path)
    with Chromium(tmp_path / "profile") as tab:
        tab.open(page.as_uri())
        assert tab.run("document.querySelector('img.stamp').naturalWidth") == 360
        assert tab.complaints == []
