"""lm-evaluation-harness: its own reading code where it is installed, the schema of its lines always, and the way back to the last bit."""

import json
import math

import numpy as np
import pytest

from qualm.registry.sample import GENERATIONS
from qualm.runners.plugins.exports.lm_eval import lm_eval
from qualm.runners.runtime.records import read_table, write_table
from tests.support.projects.exported import bits, context, generations, ran, read_back, same_bytes, write

__all__ = ["ran"]
KEYS = [
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "doc_hash",
    "prompt_hash",
    "target_hash",
    "qualm",
    "metrics",
]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def out(ran, tmp_path):
    made = context(ran, tmp_path)
    lm_eval(made)
    assert made.counts == {"samples": 16, "answers": 46} and made.lost == {"images": 15}
    return tmp_path / "m"


def test_a_task_for_each_kind_of_question(out):
    assert sorted(p.name for p in out.iterdir()) == [
        "results_2026-03-01T10-11-12.345678.json",
        "samples_d_2026-03-01T10-11-12.345678.jsonl",
        "samples_d_choices_2026-03-01T10-11-12.345678.jsonl",
    ]
    for path in out.glob("*.jsonl"):
        for row in lines(path):
            assert list(row)[: len(KEYS)] == KEYS and list(row)[len(KEYS) :] == row["metrics"]
            assert all(isinstance(row[k], str) for k in ("target", "filter", "doc_hash", "prompt_hash", "target_hash"))
            assert isinstance(row["doc_id"], int) and list(row["arguments"]) == [f"gen_args_{i}" for i in range(len(row["arguments"]))]


def test_open_answers_are_repeats(out):
    first = lines(out / "samples_d_2026-03-01T10-11-12.345678.jsonl")[0]
    assert first["resps"] == [["a red cube", "draw 1", "draw 2", "draw 3"]] and first["filtered_resps"] == ["a red cube"]
    assert first["arguments"]["gen_args_0"] == {"arg_0": "What is in part 0?", "arg_1": {"max_gen_toks": 16}}
    assert (first["metrics"], first["rating_rules"], first["target"]) == (["rating_rules"], 1.0, "a cube")


def test_options_are_log_likelihoods_as_text(out, ran):
    rows = lines(out / "samples_d_choices_2026-03-01T10-11-12.345678.jsonl")
    logits = [row["option_logits"] for row in generations(ran) if row["option_logits"]]
    for row, own in zip(rows, logits, strict=True):
        numbers = np.array([float(v) for ((v, _),) in row["resps"]])
        assert math.isclose(np.exp(numbers).sum(), 1) and numbers.argmax() == np.argmax(own)
        assert np.allclose(numbers - numbers.max(), np.array(own) - max(own), atol=1e-12)
        assert [pair for (pair,) in row["resps"]] == row["filtered_resps"]
        assert row["acc"] == float(numbers.argmax() == int(row["target"]))
    assert [[flag for ((_, flag),) in row["resps"]] for row in rows[:2]] == [["False", "True", "False", "False"], ["False"] * 4]


def test_results_hold_means_and_what_was_scored(out):
    found = json.loads((out / "results_2026-03-01T10-11-12.345678.json").read_text())
    rows = lines(out / "samples_d_choices_2026-03-01T10-11-12.345678.jsonl")
    acc = [row["acc"] for row in rows]
    choices = found["results"]["d_choices"]
    assert choices["acc,none"] == pytest.approx(np.mean(acc))
    assert choices["acc_stderr,none"] == pytest.approx(np.std(acc, ddof=1) / math.sqrt(len(acc)))
    assert choices["accuracy[ours],none"] == 0.625 and "ece,none" not in choices
    assert found["results"]["d"]["rating_rules,none"] == pytest.approx(np.mean([1, 0.5, 1, 0.5, 1, 0.5, 1]))
    assert found["higher_is_better"]["d_choices"] == {"acc": True, "accuracy[ours]": True}
    assert found["n-samples"]["d"] == {"original": 10, "effective": 10}
    assert found["qualm"]["scores"]["d"][0] | {"low": 0.4, "high": 0.8} == found["qualm"]["scores"]["d"][0]


def test_the_way_back_is_exact(out, ran):
    for kind, task in ((False, "d"), (True, "d_choices")):
        wanted = [row for row in generations(ran) if bool(row["option_logits"]) == kind]
        model = read_back_part(out, ran, task)
        assert bits(model) == bits(wanted)


def read_back_part(out, ran, task):
    from qualm.registry.sample import SAMPLES
    from qualm.runners.contracts.models import ModelContext
    from qualm.runners.plugins.models.recorded import recorded
    from qualm.runners.runtime.records import read_table

    model = recorded(ModelContext("m", folder=out), source="x", tasks={"d": task})
    rows = model.lookup("d", read_table(ran / "data/samples.parquet", SAMPLES)).to_pylist()
    assert {f.reason for f in model.left_out} == {"sample without an answer"}
    return rows


def test_one_kind_only_needs_no_name(tmp_path):
    source = write(tmp_path / "s", n_open=0)
    lm_eval(context(source, tmp_path / "out"))
    assert bits(read_back(tmp_path / "out", source)) == bits(generations(source))


def rewritten(source, change):
    """A run's answers with their rows changed."""
    rows = read_table(source / "generations.parquet", GENERATIONS).to_pylist()
    write_table(source / "generations.parquet", change(rows), GENERATIONS)
    return source


def test_samples_without_an_answer_are_counted_wherever_blocks_of_samples_end(tmp_path, monkeypatch):
    lacking = ("id/003 x", "id/008 x")
    source = rewritten(write(tmp_path / "s"), lambda rows: [row for row in rows[::-1] if row["sample_id"] not in lacking])
    monkeypatch.setattr("qualm.runners.plugins.exports.BLOCK", 3)
    made = context(source, tmp_path / "out")
    found = [(entry.place, answer["draw"], answer["text"]) for entry in made.entries(made.parts[0]) for answer in entry.answers]
    rows = sorted(generations(source), key=lambda row: (row["sample_id"], row["draw"]))
    assert found == [(int(row["sample_id"][3:6]), row["draw"], row["text"]) for row in rows]
    assert made.counts == {"samples": 14, "answers": 38, "samples without an answer": 2}


def test_draws_of_options_are_lost_and_arguments_sorted(tmp_path):
    source = rewritten(write(tmp_path / "s", n_open=0, n_choice=2), lambda rows: [*rows, rows[0] | {"draw": 1}, rows[0] | {"draw": 2}])
    made = context(source, tmp_path / "out")
    made.decoding = {"temperature": 0.5, "max_new_tokens": 16}
    made.models = {"m": {"plugin": "hf_vlm", "args": {"size": 1, "artifact": "x"}}}
    lm_eval(made)
    assert made.lost["sampled answers to multiple-choice questions"] == 2
    folder = tmp_path / "out" / "m"
    assert [len(row["qualm"]["signals"]) for row in lines(next(folder.glob("samples_*")))] == [1, 1]
    config = json.loads(next(folder.glob("results_*")).read_text())["config"]
    assert config["gen_kwargs"] == '{"max_new_tokens": 16, "temperature": 0.5}' and config["model_args"] == '{"artifact": "x", "size": 1}'


def test_equal_inputs_equal_bytes(ran, tmp_path):
    same_bytes(lm_eval, ran, tmp_path)


def test_its_own_code_reads_them(out):
    utils = pytest.importorskip("lm_eval.utils", reason="lm-evaluation-harness is not installed; pip install lm-eval")
    from lm_eval.loggers.wandb_logger import WandbLogger
    from lm_eval.result_schema import SampleResult

    files = [str(p) for p in out.iterdir()]
    samples = utils.get_sample_results_filenames(files)
    results = json.loads((out / utils.get_results_filenames(files)[0].rpartition("/")[2]).read_text())
    assert {utils.get_file_task_name(f.rpartition("/")[2]) for f in samples} == {"d", "d_choices"} == set(results["results"])
    assert {utils.get_file_datetime(f.rpartition("/")[2]) for f in samples} == {"2026-03-01T10-11-12.345678"}
    table = utils.make_table(results)
    assert "accuracy" in table and "0.6250" in table and "rating_rules" in table
    for path in samples:
        task = utils.get_file_task_name(path.rpartition("/")[2])
        rows = [json.loads(line) for line in open(path)]  # noqa: SIM115, PTH123
        assert set(SampleResult.__annotations__) <= set(rows[0])
        for row in rows:  # as its logger has them in memory, before they are written
            row["arguments"] = [list(v.values()) for v in row["arguments"].values()]
        frame = WandbLogger._generate_dataset(None, rows, results["configs"][task])
        assert list(frame["id"]) == [row["doc_id"] for row in rows]


def test_datasets_reads_them_as_its_hub_viewer_does(out):
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed; pip install datasets")
    for path in out.glob("*.jsonl"):
        found = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(out / "cache"))
        assert found["doc_id"] == [row["doc_id"] for row in lines(path)]
