"""The infer stage on a recording: rows that fit nowhere are counted, told, and listed."""

import json
from contextlib import chdir

from qualm.registry.sample import GENERATIONS
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import read_stage
from qualm.runners.stages import infer
from tests.support.data.recordings import leh, leh_open
from tests.support.projects.tiny_project import write_dataset


def run(folder):
    stage = {
        "kind": "infer", "seed": 7,
        "params": {
            "model": {"label": "m", "plugin": "recorded", "args": {"source": "registry/data/log", "format": "auto"}},
            "variants": [], "needs": ["text"], "max_new_tokens": 4,
        },
        "inputs": {"datasets": {"open": "results/t/data/open"}, "model": "registry/data/log"},
        "outputs": {"generations": {"open": "results/t/generations/m/open.parquet"}},
    }  # fmt: skip
    path = folder / "specs/t/stages/infer.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stage))
    with chdir(folder):
        stage = read_stage("t/infer", Settings(progress=False))
        infer.run(stage)
    return stage, read_table(folder / "results/t/generations/m/open.parquet", GENERATIONS).to_pylist()


def test_left_out_rows_are_counted_told_and_listed(tmp_path, capsys):
    write_dataset(tmp_path / "results/t/data/open", 3, choices=False)
    question = "What color is the cube 0 ?"
    rows = [
        leh_open(i, question, "a", "red", doc={"question": question, "sample_id": name}) for i, name in enumerate(["s0000", "other", "x"])
    ]
    leh(tmp_path / "registry/data/log", *rows, rows[0], "{")
    stage, found = run(tmp_path)
    assert [(r["sample_id"], r["text"]) for r in found] == [("s0000", "red")]
    assert stage.counters == {
        "recorded": 1,
        "dropped (not recorded)": 2,
        "left out (not a sample of the dataset)": 2,
        "left out (says the same again)": 1,
        "left out (not JSON)": 1,
        "left out (sample without an answer)": 2,
    }
    told = capsys.readouterr().err
    assert "2 x not a sample of the dataset" in told and ".jsonl:2: other" in told and "says the same again" not in told
    listed = (tmp_path / ".qualm/runs/t/infer.open.left_out.csv").read_text().splitlines()
    assert len(listed) == 7 and listed[0] == "where,reason,what"
    more = ["What color is the big sphere 1 ?", "What color is the big big cylinder 2 ?"]
    fitting = [leh_open(i, text, "a", "b", doc={"sample_id": f"s000{i}"}) for i, text in enumerate(more, 1)]
    leh(tmp_path / "registry/data/log", rows[0], *fitting)
    stage, found = run(tmp_path)
    assert len(found) == 3 and not (tmp_path / ".qualm/runs/t/infer.open.left_out.csv").exists()
