"""Every Eval Ever: its own validator and converter where they are installed, every value of our files always."""

import hashlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from uuid import UUID

import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.recordings.signals import unpack
from qualm.registry.sample import SAMPLES
from qualm.runners.plugins.exports import DatasetCredits, ExportError
from qualm.runners.plugins.exports._model_names import PublishedModel
from qualm.runners.plugins.exports.every_eval_ever import NO_DIRECTION, _model, every_eval_ever
from qualm.runners.plugins.exports.lm_eval import lm_eval
from qualm.runners.runtime.records import read_table
from tests.support.data.score_files import read_labelled, write_scores
from tests.support.projects.exported import bits, context, generations, ran, read_back, same_bytes

__all__ = ["ran"]
SCORE = {"model": "m", "dataset": "d", "variant": "clean", "slice": "all", "n": 6, "n_unscored": 1}
INTERVAL = {"low": 0.4, "high": 0.8, "level": 0.95, "n_resamples": 1000, "interval": "proportion"}
ROWS = [
    {**SCORE, "metric": "accuracy", "value": 0.625, "n_groups": 4, **INTERVAL},
    {**SCORE, "metric": "ece@bins=5", "value": 0.25, "why_no_interval": "one group"},
    {**SCORE, "metric": "coverage[ours/lac]", "value": 0.9},
    {**SCORE, "metric": "auroc[p_true]", "value": None},
    {**SCORE, "metric": "accuracy", "value": 0.1, "slice": "split=test"},
]  # fmt: skip


@pytest.fixture
def scored(ran: Path, tmp_path: Path) -> Path:
    write_scores(tmp_path / "scores.parquet", ROWS)
    return tmp_path / "scores.parquet"


def made(ran: Path, scored: Path, **options) -> tuple[dict, list[dict], object]:
    found = context(ran, scored.parent / "out")
    found.tables = {**found.tables, "scores": scored}
    found.higher_is_better = {"accuracy": True, "ece@bins=5": False, "coverage": None, "auroc": True}
    every_eval_ever(found, **options)
    (log,) = found.folder.glob("data/bench/*/*/*.json")
    lines = [json.loads(line) for path in found.folder.rglob("*.jsonl") for line in path.read_text().splitlines()]
    return json.loads(log.read_text()), lines, found


def test_scores_with_their_intervals(ran, scored):
    log, _, found = made(ran, scored, organization="A lab", relationship="third_party", developer="lab x")
    accuracy, ece = log["evaluation_results"]
    assert accuracy["score_details"] == {
        "score": 0.625,
        "details": {"n_unscored": "1", "n_groups": "4"},
        "uncertainty": {
            "num_samples": 6,
            "num_bootstrap_samples": 1000,
            "confidence_interval": {"lower": 0.4, "upper": 0.8, "confidence_level": 0.95, "method": "proportion, over groups of questions"},
        },
    }
    config = accuracy["metric_config"]
    assert (config["metric_id"], config["metric_kind"], config["lower_is_better"]) == ("accuracy", "accuracy", False)
    config = ece["metric_config"]
    assert (config["metric_id"], config["metric_kind"], config["lower_is_better"]) == ("qualm.ece@bins=5", "ece", True)
    assert ece["score_details"]["uncertainty"] == {"num_samples": 6} and ece["score_details"]["details"]["why_no_interval"] == "one group"
    assert found.lost[NO_DIRECTION] == 1 and found.lost["undefined scores"] == 1
    assert (
        log["source_metadata"]["source_organization_name"] == "A lab" and log["source_metadata"]["evaluator_relationship"] == "third_party"
    )
    model = log["model_info"]
    assert (model["name"], model["id"], model["developer"]) == ("m", "lab-x/m", "lab-x")
    assert model["additional_details"]["deployment_type"] == "self_deployed"
    assert accuracy["generation_config"]["generation_args"] == {"temperature": 0, "max_tokens": 16}
    assert accuracy["source_data"]["url"] == ["https://example.org"]


def test_answers_one_line_for_each_that_was_scored(ran, scored):
    log, lines, found = made(ran, scored)
    (path,) = found.folder.rglob("*.jsonl")
    detailed = log["detailed_evaluation_results"]
    assert (
        path.relative_to(found.folder).as_posix() == detailed["file_path"] and UUID(path.name.removesuffix("_samples.jsonl")).version == 4
    )
    assert detailed["checksum"] == hashlib.sha256(path.read_bytes()).hexdigest() and detailed["total_rows"] == len(lines) == 13
    unscored = "answers that nothing scored, which the format has no place for"
    assert found.lost == {"images": 15, unscored: 3, NO_DIRECTION: 1, "undefined scores": 1}
    first, choice = lines[0], next(line for line in lines if line["input"]["choices"])
    assert first["input"] == {"raw": "What is in part 0?", "formatted": "What is in part 0?", "reference": ["a cube"], "choices": None}
    assert first["output"] == {"raw": ["a red cube", "draw 1", "draw 2", "draw 3"]} and first["evaluation"] == {
        "score": 1.0,
        "is_correct": True,
    }
    assert {line["evaluation"]["score"]: line["evaluation"]["is_correct"] for line in lines} == {1.0: True, 0.5: False, 0.0: False}
    assert (
        choice["answer_attribution"][0]["extraction_method"] == "likeliest option"
        and choice["input"]["reference"][0] in choice["input"]["choices"]
    )
    assert all(line["evaluation_id"] == log["evaluation_id"] and line["model_id"] == log["model_info"]["id"] for line in lines)
    kept = {row["sample_id"]: row for row in generations(ran) if row["draw"] == 0}
    for line in lines:
        (greedy, *_) = json.loads(line["metadata"]["qualm"])
        row = kept[line["sample_id"]]
        assert bits(unpack(greedy)["token_logprobs"]) == bits(row["token_logprobs"])


def test_scored_answers_come_back_as_they_were(ran, scored):
    _, lines, found = made(ran, scored)
    kept = {line["sample_id"] for line in lines}
    assert bits(read_back(found.folder, ran, lacking=3)) == bits([row for row in generations(ran) if row["sample_id"] in kept])
    adapted = {s.sample_id: s for s in recorded_samples(AdapterContext(found.folder, source=found.folder), pictures="none")}
    samples = {row["sample_id"]: row for row in read_table(ran / "data" / "samples.parquet", SAMPLES).to_pylist()}
    assert kept == set(adapted)
    for name, sample in adapted.items():
        assert (sample.question, list(sample.references)) == (samples[name]["question"], samples[name]["references"])
        assert (list(sample.choices), sample.answer_index) == (samples[name]["choices"], samples[name]["answer_index"])


def test_without_answers(ran, scored):
    log, lines, found = made(ran, scored, samples=False)
    assert not lines and "detailed_evaluation_results" not in log and not found.lost["images"]


def test_a_data_set_of_the_hub_is_named(ran, scored):
    found = context(ran, scored.parent / "hub")
    found.tables, found.about = {"scores": scored}, {"d": DatasetCredits(source="https://huggingface.co/datasets/lab/bench")}
    found.higher_is_better = {"accuracy": True}
    every_eval_ever(found, samples=False)
    (log,) = found.folder.rglob("*.json")
    source = json.loads(log.read_text())["evaluation_results"][0]["source_data"]
    assert (source["source_type"], source["hf_repo"]) == ("hf_dataset", "lab/bench")


@pytest.mark.parametrize(
    ("model", "deployment", "availability"),
    [
        (PublishedModel("lab/m", True, False), "self_deployed", "open_weights"),
        (PublishedModel("lab/m", False, True), "externally_managed", "closed_weights"),
        (PublishedModel("lab/m"), "unknown", "unknown"),
    ],
)
def test_who_runs_a_model_and_who_may(ran, tmp_path, model, deployment, availability):
    found = context(ran, tmp_path)
    found.models = {"m": {"plugin": "openai", "args": {"model": "m", "base_url": "x"}}}
    about = _model(found, found.parts[0], model)
    assert (about["id"], about["developer"]) == ("lab/m", "lab") and "inference_engine" not in about
    details = about["additional_details"]
    assert (details["deployment_type"], details["model_availability"]) == (deployment, availability)
    assert (details["plugin"], details["args"]) == ("openai", '{"base_url": "x", "model": "m"}')


def test_nothing_scored(ran, tmp_path):
    found = context(ran, tmp_path)
    found.tables = {}
    with pytest.raises(ExportError, match="'bench' has no scores; `qualm run bench` makes them"):
        every_eval_ever(found)
    write_scores(tmp_path / "none.parquet", read_labelled(ran / "scores.parquet").slice(0, 0))
    found.tables = {"scores": tmp_path / "none.parquet"}
    every_eval_ever(found)
    assert found.lost == {"models and datasets without any score": 1} and not list(tmp_path.rglob("*.json"))


def test_the_same_export_is_the_same_files(ran, tmp_path):
    same_bytes(every_eval_ever, ran, tmp_path)


@pytest.mark.skipif(find_spec("every_eval_ever") is None, reason="needs every_eval_ever (Python >= 3.12)")
def test_its_validator_and_its_converter_take_our_files(ran, scored):
    _, _, found = made(ran, scored)
    run = [sys.executable, "-m", "every_eval_ever"]
    files = [str(path) for path in found.folder.rglob("*.json*")]
    subprocess.run([*run, "validate", *files], check=True)
    logs = context(ran, scored.parent / "lm_eval")
    lm_eval(logs)
    out = scored.parent / "converted"
    subprocess.run([*run, "convert", "lm_eval", "--log_path", logs.folder, "--output_dir", out, "--include_samples"], check=True)
    assert {path.relative_to(out).parts[:3] for path in out.rglob("*.json")} == {("d", "local", "m"), ("d_choices", "local", "m")}
