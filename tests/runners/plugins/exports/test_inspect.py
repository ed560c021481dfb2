"""Inspect: its own reader where it is installed, the shape of its logs always, and the way back to the last bit."""

import json
import zipfile

import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.sample import Image
from qualm.runners.plugins.exports.inspect import inspect
from tests.support.data.recordings import png
from tests.support.projects.exported import bits, context, generations, ran, read_back, same_bytes, write

__all__ = ["ran"]


@pytest.mark.parametrize("form", ["eval", "json"])
def test_the_way_back_is_exact(ran, tmp_path, form):
    made = context(ran, tmp_path)
    inspect(made, form=form)
    assert not made.lost and made.counts["answers"] == 46
    assert bits(read_back(tmp_path, ran)) == bits(generations(ran))


def test_a_log_without_pictures_says_so(ran, tmp_path):
    made = context(ran, tmp_path)
    inspect(made, images=False)
    assert made.lost == {"images (`-O images=true` keeps them)": 15}


def test_members_and_fields(ran, tmp_path):
    inspect(context(ran, tmp_path))
    (path,) = tmp_path.glob("2026-03-01T10-11-12-00-00_d_*.eval")
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        first, second = (json.loads(archive.read(f"samples/id/000 x_epoch_{e}.json")) for e in (1, 2))
        assert len(json.loads(archive.read("summaries.json"))) == 46
        assert len([n for n in archive.namelist() if n.startswith("samples/")]) == 46
    assert (header["version"], header["status"], header["eval"]["config"]) == (2, "success", {"epochs": 4})
    assert (header["results"]["total_samples"], header["results"]["completed_samples"]) == (46, 46)  # 10 of 4 draws, 6 of one
    assert (header["eval"]["dataset"]["samples"], len(header["eval"]["dataset"]["sample_ids"])) == (16, 16)
    assert header["eval"]["revision"] == {"type": "git", "origin": "", "commit": "abc123", "dirty": False}
    assert [s["name"] for s in header["results"]["scores"]] == ["accuracy[ours]"]
    assert [part["type"] for part in first["input"][0]["content"]] == ["image", "text"]
    assert first["scores"] == {"rules": {"value": 1.0, "answer": "a red cube"}} and "scores" not in second
    assert second["output"]["completion"] == "draw 1" and first["metadata"]["category"] == "epistemic/knowledge"
    assert "logprobs" not in first["output"]["choices"][0]  # Inspect wants the tokens' texts, which we do not have


@pytest.mark.parametrize(("draws", "epochs", "answers"), [(0, 1, 8), (1, 2, 13), (2, 3, 18)])
def test_samples_are_counted_over_epochs(tmp_path, draws, epochs, answers):
    """Five questions with a greedy answer and so many draws, and three of multiple choice with one answer each."""
    source = write(tmp_path / "bench", n_open=5, n_choice=3, draws=draws)
    inspect(context(source, tmp_path / "out"), form="json")
    log = json.loads(next((tmp_path / "out").glob("*.json")).read_text())
    assert log["eval"]["config"] == {"epochs": epochs} and log["eval"]["dataset"]["samples"] == 8
    assert log["results"]["total_samples"] == log["results"]["completed_samples"] == len(log["samples"]) == answers
    assert max(sample["epoch"] for sample in log["samples"]) == epochs


def test_questions_and_pictures_come_back(ran, tmp_path):
    inspect(context(ran, tmp_path))
    made = list(recorded_samples(AdapterContext(tmp_path, source=tmp_path)))
    samples = [m for m in made if not isinstance(m, Image)]
    assert [s.question for s in samples] == [f"What is in part {i}?" for i in range(16)]
    assert samples[12].choices[1] == "a dog" and samples[12].answer_index == 0
    assert next(m.data for m in made if isinstance(m, Image)) == png((0, 9, 9), side=48)


def test_equal_inputs_equal_bytes(ran, tmp_path):
    same_bytes(inspect, ran, tmp_path)


@pytest.mark.parametrize("form", ["eval", "json"])
def test_its_own_reader_opens_them(ran, tmp_path, form):
    log = pytest.importorskip("inspect_ai.log", reason="Inspect is not installed; pip install inspect-ai")
    inspect(context(ran, tmp_path), form=form)
    (info,) = log.list_eval_logs(str(tmp_path))
    assert info.task == "d"
    found = log.read_eval_log(info)
    assert (found.version, found.status, found.eval.model, len(found.samples)) == (2, "success", "qualm/m", 46)
    assert found.results.scores[0].metrics["value"].value == 0.625
    sample = log.read_eval_log_sample(info, "id/000 x", 1)
    assert sample.output.completion == "a red cube" and sample.scores["rules"].value == 1.0
    assert sample.messages[0].content[0].image.startswith("data:image/png;base64,")
    assert sample.output.metadata["qualm"]["token_logprobs"] == generations(ran)[0]["token_logprobs"]
    by_epoch = [s.output.completion for s in found.samples if s.id == "id/000 x"]
    assert by_epoch == ["a red cube", "draw 1", "draw 2", "draw 3"]
    again = tmp_path / "again" / f"x.{form}"
    again.parent.mkdir()
    log.write_eval_log(found, str(again))  # what Inspect itself writes of it, Zstandard and all
    assert bits(read_back(again.parent, ran)) == bits(generations(ran))
    assert len(list(log.read_eval_log_sample_summaries(info))) == 46


def test_its_validator_knows_every_field(ran, tmp_path):
    """Nothing of ours is dropped as unknown: what its models write again holds every key that we wrote."""
    log = pytest.importorskip("inspect_ai.log", reason="Inspect is not installed; pip install inspect-ai")
    inspect(context(ran, tmp_path), form="json")
    (path,) = tmp_path.glob("*.json")
    wrote, again = json.loads(path.read_text()), json.loads(log.read_eval_log(str(path)).model_dump_json())

    def keys(value, where=""):
        if isinstance(value, dict):
            return {f"{where}.{k}" for k in value} | {n for k, v in value.items() for n in keys(v, f"{where}.{k}")}
        return {n for v in value for n in keys(v, f"{where}[]")} if isinstance(value, list) else set()

    assert keys(wrote) <= keys(again)
