"""Stage `report`: what the page says of its data, its limits and its policy; the page as a whole is in reporting/test_report.py."""

import base64
import hashlib
from importlib import import_module
from pathlib import Path

import pytest

from qualm.runners.contracts.stages import stage_kind
from qualm.runners.reporting import page
from qualm.runners.reporting.appendix import library_versions, metric_list
from qualm.runners.reporting.load import read_report
from qualm.runners.reporting.sections.data_sets import describe_samples
from qualm.runners.reporting.summary import page_facts
from qualm.runners.stages import report
from tests.runners.reporting.conftest import Fabric
from tests.runners.reporting.made_results import made_results, sample, score

THRESHOLD = {"model": "m", "dataset": "d", "setting": "published", "score": "lac", "alpha": 0.1}


@pytest.fixture
def fabric(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Fabric(tmp_path, n=24)


def test_the_page_is_published_counted_and_the_same_twice(fabric):
    stage = fabric.stage()
    report.run(stage)
    html = Path(stage.outputs["report"]).read_bytes()
    assert stage.counters == {"bytes": len(html)} and html.startswith(b"<!")
    assert report.render(read_report(stage)) == html


def test_five_mebibytes_are_the_most():
    assert page.MAX_BYTES == 5 * 1024 * 1024


def test_every_template_is_an_asset_of_the_stage_or_of_the_section_that_it_is_of():
    modules = [page, *(import_module(section.make.__module__) for section in report.SECTIONS)]
    there = {(Path(str(module.__file__)).parent / name).resolve() for module in modules for name in module.ASSETS}
    assert there == {path.resolve() for path in page.TEMPLATES.iterdir() if path.is_file()}
    assert all((page.TEMPLATES / section.template).resolve() in there for section in report.SECTIONS)


def test_the_stage_reads_what_its_sections_read():
    reads = stage_kind("report").reads
    assert {"scores", "generations", "effects", "judging", "published", "shown", "shortcuts"} <= set(reads)
    assert len(reads) == len(set(reads))


def test_the_policy_allows_one_script_by_its_hash():
    digest = base64.b64encode(hashlib.sha256(b"let x = 1;").digest()).decode()
    assert page.security_policy("let x = 1;") == (
        "default-src 'none'; img-src data: 'self' file:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_facts_in_a_row():
    variants = [{"plugin": "blur"}, {"plugin": "blur"}, {"plugin": "typos"}]
    scores = [score("accuracy", 0.5, "m", n=1200), score("accuracy", 0.5, "n", "e")]
    answers = [{"model": "m", "dataset": "d", "sample_id": str(i)} for i in range(1234)]
    results = made_results(scores, answers=answers, thresholds=[THRESHOLD], variants=variants, spec_sha256="0123456789abcdef" * 4, seed=9)
    results.judge = "rules"
    assert page_facts(results) == [
        ("Spec", "small"), ("Models", "2"), ("Datasets", "2"),
        ("Perturbations", "2 in 3 variants"), ("Clean answers", "1,234"), ("Judge", "rules"), ("Conformal", "published"),
    ]  # fmt: skip
    assert page_facts(made_results(scores))[1:] == [
        ("Models", "2"), ("Datasets", "2"), ("Answers", "up to 1,200 each"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("baselines", "text"),
    [
        (["m+picture_refuser"], "1 + 1 baseline that ignores the image or the question"),
        (["m+blind_refuser", "m+swapped_picture"], "1 + 2 baselines that ignore the image or the question"),
    ],
)
def test_baselines_are_counted_apart_from_models(baselines, text):
    results = made_results([score("accuracy", 0.5, model) for model in ("m", *baselines)])
    assert dict(page_facts(results))["Models"] == text


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ([sample("a")], "1 open-ended questions · text only"),
        ([sample("a", choices=["x"]), sample("b", choices=[])], "2 questions (1 multiple-choice, 1 open-ended) · text only"),
        ([sample(n, choices=["x", "y"], image_id="i", group="g") for n in "ab"], "2 multiple-choice questions · 1 images · 1 groups"),
        (
            [sample("a", image_id="i", group="g", answerable=False), sample("b", image_id="j", answerable=None, choices=None),
             sample("c", group="h", answerable=False)],
            "3 open-ended questions · 2 images · 2 groups · 2 unanswerable",
        ),
    ],
)  # fmt: skip
def test_counts_are_those_of_the_samples(samples, text):
    assert describe_samples(made_results([score("accuracy", 0.5)], samples={"d": samples}), "d") == text


def test_samples_that_are_not_at_hand():
    assert describe_samples(made_results([score("accuracy", 0.5)]), "d") == "samples are not available"


def test_library_versions_are_sorted_and_each_stands_once():
    results = made_results([score("accuracy", 0.5)])
    results.provenance += [
        {"libraries": {"torch": "2.1", "numpy": "2"}},
        {},
        {"libraries": {"torch": "2.0"}},
        {"libraries": {"numpy": "2"}},
    ]
    assert library_versions(results) == [("numpy", "2"), ("torch", "2.0, 2.1")]


def test_every_metric_in_one_line():
    results = made_results([score(m, 0.5) for m in ("ece@bins=5", "ece", "accuracy", "idk_rate", "not_a_metric")])
    lines = {title: direction for title, direction, _ in metric_list(results)}
    assert lines == {"ECE": "lower is better", "accuracy": "higher is better", "IDK rate": "no direction", "not a metric": "no direction"}
    assert all(text for title, _, text in metric_list(results) if title != "not a metric")


@pytest.mark.slow
def test_examples_are_shared_out_and_none_is_shown_where_none_is_wanted(fabric):
    for examples, shown in ((1, 1), (0, 0), (1000, 48)):
        assert len(report._content(read_report(fabric.stage(examples=examples)))["examples"]) == shown


def test_a_usual_page_has_two_dozen_examples(fabric):
    stage = fabric.stage()
    del stage.params["examples"]
    content = report._content(read_report(stage))
    assert len(content["examples"]) == 24 and content["title"] == "A small benchmark" and content["models"] == ["large", "small"]
    assert content["strategies"] == [] and content["cost"] is None and content["idk_figures"] == [] and content["pairs"] == []
    assert [section.id for section, _ in content["sections"]] == ["calibration", "uncertainty", "breakdown"], "no study has what it takes"
    stage.params["title"] = ""
    assert report._content(read_report(stage))["title"] == "small"
