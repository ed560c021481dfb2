"""How a report was made stands at its end: intervals, decoding, models with digests; commit, machine and time beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualm.runners.reporting.appendix import data_row, facts_of, format_plugin, model_row
from qualm.runners.reporting.load import read_report
from qualm.runners.runtime.run_times import write_times
from qualm.runners.runtime.stamp import facts_in_words, facts_svg, read_stamp, write_stamp
from qualm.runners.stages.report import render
from tests.support.processes.chromium import Chromium
from tests.support.projects.finished_project import git

MODEL = {"name": "large", "plugin": "hf_vlm", "files": "registry/data/weights"}
ARGS = {"artifact": "registry/data/weights", "dtype": "float32", "hub": None, "revision": None, "quantization": "none", "adapter": "extra"}
MADE = {
    "interval": {"bootstrap": 1000, "level": 0.9},
    "compare": {"correction": "holm", "family": "metric"},
    "decoding": {"max_new_tokens": 16, "draws": 10, "temperature": 0.7, "top_p": 0.95},
    "confidence": "verify",
    "models": [MODEL | {"args": ARGS}],
    "family": "study",
    "prompts": {"large, open": '{"system":"Be brief."}', "large, plain": '{"system":"Be brief."}'},
    "data": [{"name": "open", "of": "vizwiz", "path": "data/open", "files": "registry/data/vizwiz", "licence": "CC BY 4.0"}],
    "judges": [{"label": "strict", "plugin": "lave", "args": {"by": {"plugin": "openai", "args": {"model": "gpt-4"}}, "order": None}}],
    "estimators": ["perplexity", "p_true"],
    "versions": {"judging": 2},
}
CONFORMAL = {
    "label": "ours",
    "alpha": 0.1,
    "calibration": {"seed": 42, "fraction": 0.5, "split": None},
    "scores": [{"label": "lac"}, {"label": "aps"}],
}


@pytest.mark.slow
def test_all_of_it_stands_in_the_page(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(n=20)
    page = render(read_report(fabric.stage(made=MADE, settings=[CONFORMAL]))).decode().replace("&#39;", "'")
    questions = hashlib.sha256(Path(fabric.inputs["datasets"]["open"], "samples.parquet").read_bytes()).hexdigest()
    for fact in (
        "90% intervals from 1,000 bootstrap resamples of whole groups",
        "Each value has its interval (90% ",
        'Point at a value for its n and groups. <b class="best">Bold</b>: significantly better than every other ranked row of its column.',
        "paired t tests over whole groups; p-values corrected by Holm's method over the tests of one metric on one dataset and slice",
        "greedy, at most 16 new tokens; 10 sampled answers at temperature 0.7, top_p 0.95",
        "registry/data/weights",
        "float32",
        "adapter: extra",
        "ab" * 32,
        "paired differences over the same resamples, corrected by Westfall and Young's max-T method",
        "Judge strict",
        "lave (by: openai (model: gpt-4))",
        "perplexity, p_true",
        "Prompt of large, open; large, plain",
        "{&#34;system&#34;:&#34;Be brief.&#34;}",
        "judging 2; 1 of all others",
        "lac, aps; alpha 0.1; calibration: fraction 0.5, seed 42",
        "registry/data/vizwiz",
        "CC BY 4.0",
        questions,
        'src="../../.qualm/runs/small/made.svg"',
        'src="../../.qualm/runs/small/times.svg"',
    ):
        assert fact in page, fact
    assert render(read_report(fabricate(n=20).stage(made=MADE, settings=[CONFORMAL]))).decode().replace("&#39;", "'") == page


def test_a_report_that_was_planned_before_has_what_it_has(fabricate: Callable[..., Any]) -> None:
    earlier = {key: MADE[key] for key in ("interval", "compare", "decoding", "confidence", "models")}
    page = render(read_report(fabricate(n=20).stage(made=earlier))).decode()
    assert "10 sampled answers at temperature 0.7" in page and "SHA-256 of questions" not in page and "Judge strict" not in page


def test_a_data_set(tmp_path: Path) -> None:
    (about,) = MADE["data"]
    assert data_row(about, tmp_path, None)[2:] == ["registry/data/vizwiz", "not added", "CC BY 4.0", "not available"]
    (tmp_path / "data/open").mkdir(parents=True)
    (tmp_path / "data/open/samples.parquet").write_bytes(b"abc")
    pairs = {"name": "ours", "of": "from_caption", "path": "data/open"}
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert data_row(pairs, tmp_path, "data/open") == ["ours", "from_caption", "–", "–", "as its source", abc]


def test_digests_are_those_of_the_entries(tmp_path: Path) -> None:
    (tmp_path / "registry/data").mkdir(parents=True)
    about = MODEL | {"args": ARGS}
    assert model_row(about, tmp_path)[2:5] == ["registry/data/weights", "not added", "float32"]
    (tmp_path / "registry/data/weights.dvc").write_text("outs:\n- md5: 0123456789abcdef0123456789abcdef.dir\n  path: weights\n")
    assert model_row(about, tmp_path)[3] == "md5 0123456789abcdef0123456789abcdef.dir"
    (tmp_path / "registry/data/weights.dvc").write_text("outs: {")
    assert model_row(about, tmp_path)[3] == "not readable"
    hub = MODEL | {"files": None, "args": ARGS | {"hub": "org/name", "revision": "abc123"}}
    assert model_row(hub, tmp_path)[2:4] == ["org/name", "revision abc123"]
    given = {"b": 1, "a": 2, "files": "registry/data/weights", "c": None, "d": False, "e": {}, "f": "none"}
    assert model_row(MODEL | {"args": given}, tmp_path)[4:] == ["not specified", "a: 2, b: 1"], "what is set, by name"
    inner = {"plugin": "y", "args": {"d": 0, "c": 0.0, "e": []}}
    assert format_plugin({"plugin": "x", "args": {"b": 1, "a": inner}}) == "x (a: y (c: 0.0, d: 0), b: 1)", "0 is a setting"


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"interval": {"bootstrap": 0, "level": 0.95}}, ("Intervals", "none: bootstrap: 0")),
        ({"decoding": {"max_new_tokens": 8}}, ("Decoding", "greedy, at most 8 new tokens; no sampled answers")),
        ({"models": [{"plugin": "recorded"}]}, ("Decoding", "none: all answers were recorded with other tools")),
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
    assert "&lt;b&gt;" in facts_svg(facts | {"processor": "<b>"})


def test_a_browser_shows_the_commit_where_the_record_lies(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    page = tmp_path / "results/small/report.html"
    page.parent.mkdir(parents=True)
    page.write_bytes(render(read_report(fabricate(n=20).stage(made=MADE))))
    write_stamp("small", tmp_path)
    write_times("small", tmp_path)
    with Chromium(tmp_path / "profile") as tab:
        tab.open(page.as_uri())
        assert tab.run("[...document.querySelectorAll('img.stamp')].map(i => i.naturalWidth)") == [360, 360]
        assert tab.complaints == []
