import json
from collections import Counter
from contextlib import chdir

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from qualm.registry.sample import GENERATIONS, SAMPLES, Sample
from qualm.runners.data.rows import as_row, as_sample, choose_limited, choose_stratified, with_provenance
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, read_stage
from qualm.runners.stages import infer
from tests.support.data.recordings import leh, leh_open
from tests.support.projects.tiny_project import write_dataset

FULL = Sample(
    sample_id="s", question="Q?", image_id="i", references=("a", "b"), choices=("x", "y"), answer_index=1, category="c/d",
    answerable=False, split="val", source="src", group="g", meta={"k": "v", "l": ""}, pair_id="p",
)  # fmt: skip


def test_a_sample_comes_back_from_its_row_in_the_table():
    for sample in (FULL, Sample(sample_id="t", question="?")):
        (row,) = pa.Table.from_pylist([as_row(sample)], SAMPLES).to_pylist()
        assert as_sample(row) == sample


SAMPLE_LISTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=40).map(lambda cs: [(f"s{i}", c) for i, c in enumerate(cs)])


@given(SAMPLE_LISTS, st.integers(0, 45), st.integers(0, 9))
def test_a_larger_limit_chooses_a_superset_and_categories_keep_their_shares(samples, limit, seed):
    chosen = choose_stratified(samples, limit, seed)
    assert len(chosen) == min(limit, len(samples)) and chosen <= choose_stratified(samples, limit + 1, seed)
    totals, taken = Counter(c for _, c in samples), Counter(c for s, c in samples if s in chosen)
    for category, total in totals.items():
        assert abs(taken[category] - total * min(limit, len(samples)) / len(samples)) <= len(totals) / 2 + 1


def test_the_choice_depends_on_ids_and_seed_and_not_on_order():
    samples = [(f"s{i}", "c") for i in range(50)]
    assert choose_stratified(samples, 10, 1) == choose_stratified(samples[::-1], 10, 1) != choose_stratified(samples, 10, 2)


def test_a_schema_says_which_run_its_table_is_of():
    stage = Stage("s/d", "s", "data", "d", {"limit": 3}, {}, {}, 7, Settings())
    schema = with_provenance(stage, pa.schema([("a", pa.int64())], metadata={"old": "kept"}))
    assert json.loads(schema.metadata[b"qualm"]) == json.loads(json.dumps(stage.provenance)) and schema.metadata[b"old"] == b"kept"


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


def limited(limit, rows):
    return sorted(
        choose_limited([{"category": "c", "answerable": True, "pair_id": None, "split": "test", **row} for row in rows], limit, 7)
    )


MIXED = [
    {"sample_id": f"{split}{i}{m}", "image_id": f"{split}{i}", "pair_id": f"{split}{i}", "answerable": m == "a", "split": split}
    for split in ("train", "test")
    for i in range(10)
    for m in "au"
]


def test_a_limit_counts_what_it_says():
    assert len(limited(7, MIXED)) == len(limited({"unit": "questions", "of": {"": 7}}, MIXED)) == 7
    pairs = limited({"unit": "pairs", "of": {"": 7}}, MIXED)
    assert len(pairs) == 14 and len({name[:-1] for name in pairs}) == 7
    assert pairs == limited({"unit": "images", "of": {"": 7}}, [{**row, "category": "c"} for row in MIXED])
    assert set(pairs) < set(limited({"unit": "pairs", "of": {"": 9}}, MIXED))


def test_a_limit_of_one_split_leaves_the_others_whole():
    chosen = limited({"unit": "pairs", "of": {"test": 3}}, MIXED)
    assert sum(name.startswith("test") for name in chosen) == 6 and sum(name.startswith("train") for name in chosen) == 20
    assert limited({"unit": "pairs", "of": {"test": 99, "train": 99}}, MIXED) == sorted(row["sample_id"] for row in MIXED)


def test_lone_members_are_no_pairs():
    assert len(limited({"unit": "pairs", "of": {"": 99}}, MIXED[1:])) == 38
    assert limited({"unit": "pairs", "of": {"": 99}}, [{**row, "pair_id": None} for row in MIXED]) == []
