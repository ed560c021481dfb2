"""Conformal sets in single and in double precision, through the stage that makes them."""

from pathlib import Path

import pytest

from qualm.registry.sample import CONFORMAL_SETS, CONFORMAL_THRESHOLDS, GENERATIONS, SAMPLES
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import calibrate

USUAL = [3.375, 1.5, 1.25, 0.0]
"""Its two likeliest options have .88244042 together."""
ODD = [4.0, 2.125, 2.0, 0.0]
"""Its two likeliest options have 1.1e-7 more; in float32 they have just as much."""
N = 40


def setting(label, **changes):
    same = {"scores": [{"label": "aps", "plugin": "aps", "args": {"ties": "sorted"}}], "alpha": 0.1, "quantile": "numpy_higher"}
    return {"label": label, **same, "empty_set": "argmax", "calibration": {"fraction": 0.5, "seed": 42, "split": "rows"}} | changes


def sets_of_the_odd_row(odd):
    """Setting -> the letters in the set of the one question with other logits than the rest; and the thresholds."""
    samples = [
        {
            "sample_id": f"s{i}",
            "question": "?",
            "choices": list("ABCD"),
            "answer_index": 1,
            "answerable": True,
            "split": "test",
            "group": "",
        }
        for i in range(N)
    ]
    rows = [{"sample_id": f"s{i}", "variant": "clean", "draw": 0, "option_logits": ODD if i == odd else USUAL} for i in range(N)]
    write_table(Path("data/samples.parquet"), samples, SAMPLES)
    write_table(Path("generations.parquet"), rows, GENERATIONS)
    settings = [setting("published", precision="single"), setting("double", precision="double"), setting("unsaid")]
    inputs = {"datasets": {"d": "data"}, "generations": {"m": {"d": "generations.parquet"}}}
    outputs = {"sets": "sets.parquet", "thresholds": "thresholds.parquet"}
    calibrate.run(Stage("b/calibrate", "b", "calibrate", "calibrate", {"settings": settings}, inputs, outputs, 7, Settings()))
    sets = {r["setting"]: r for r in read_table(Path("sets.parquet"), CONFORMAL_SETS).to_pylist() if r["sample_id"] == f"s{odd}"}
    limits = {r["setting"]: r["threshold"] for r in read_table(Path("thresholds.parquet"), CONFORMAL_THRESHOLDS).to_pylist()}
    assert not any(row["is_calibration"] for row in sets.values())
    return {name: "".join("ABCD"[i] for i in range(4) if row["set_mask"] >> i & 1) for name, row in sets.items()}, limits


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """A row that does not calibrate."""
    monkeypatch.chdir(tmp_path)
    import numpy as np

    from qualm.runners.data.calibration_split import calibration_rows

    return int(np.flatnonzero(~calibration_rows(np.arange(N), 0.5, 42, "rows"))[0])


def test_single_precision_lets_in_an_option_that_double_does_not(odd):
    sets, limits = sets_of_the_odd_row(odd)
    assert sets == {"published": "AB", "double": "A", "unsaid": "A"}
    assert limits["published"] == pytest.approx(limits["double"], abs=1e-7)
    assert limits["double"] == limits["unsaid"] != limits["published"]


def test_randomised_scores_give_a_sample_the_same_set_in_any_order_of_answers(tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    rng, same = np.random.default_rng(0), {"question": "?", "choices": list("ABCD"), "answerable": True, "split": "test", "group": ""}
    logits, truth = rng.normal(size=(N, 4)), rng.integers(0, 4, N).tolist()
    rows = [{"sample_id": f"s{i}", "variant": "clean", "draw": 0, "option_logits": logits[i].tolist()} for i in range(N)]
    write_table(Path("data/samples.parquet"), [same | {"sample_id": f"s{i}", "answer_index": truth[i]} for i in range(N)], SAMPLES)
    scores = [{"label": name, "plugin": name, "args": {}} for name in ("aps_randomised", "raps", "margin")]
    inputs = {"datasets": {"d": "data"}, "generations": {"m": {"d": "generations.parquet"}}}
    made = []
    for answers in (rows, rows[::-1]):
        write_table(Path("generations.parquet"), answers, GENERATIONS)
        outputs = {"sets": f"sets{len(made)}.parquet", "thresholds": f"thresholds{len(made)}.parquet"}
        params = {"settings": [setting("ours", scores=scores, quantile="standard", empty_set="empty")]}
        calibrate.run(Stage("b/calibrate", "b", "calibrate", "calibrate", params, inputs, outputs, 7, Settings()))
        sets = read_table(Path(outputs["sets"]), CONFORMAL_SETS).to_pylist()
        made.append({(r["score"], r["sample_id"]): r["set_mask"] for r in sets})
    assert made[0] == made[1] and len(made[0]) == 3 * N
    assert any(made[0]["aps_randomised", f"s{i}"] != made[0]["margin", f"s{i}"] for i in range(N))


def parted(per, categories, metas=(), groups=None, **calibration):
    """Sets and thresholds of 120 questions with four options; nine of category `rare`, so that too few of them calibrate."""
    import numpy as np

    rng, n = np.random.default_rng(1), 120
    truth = rng.integers(0, 4, n)
    logits = rng.normal(size=(n, 4)) + 2 * np.eye(4)[truth]
    samples = [
        {"sample_id": f"s{i}", "question": "?", "choices": list("ABCD"), "answer_index": int(truth[i]), "answerable": True, "split": "test"}
        | {"category": categories[i], "meta": list(metas), "group": groups[i] if groups else ""}
        for i in range(n)
    ]
    rows = [{"sample_id": f"s{i}", "variant": "clean", "draw": 0, "option_logits": logits[i].tolist()} for i in range(n)]
    write_table(Path("data/samples.parquet"), samples, SAMPLES)
    write_table(Path("generations.parquet"), rows, GENERATIONS)
    made = setting("parted", scores=[{"label": "lac", "plugin": "lac", "args": {}}], quantile="standard", per=per)
    params = {"settings": [made | {"calibration": made["calibration"] | calibration}]}
    inputs = {"datasets": {"d": "data"}, "generations": {"m": {"d": "generations.parquet"}}}
    outputs = {"sets": "sets.parquet", "thresholds": "thresholds.parquet"}
    stage = Stage("b/calibrate", "b", "calibrate", "calibrate", params, inputs, outputs, 7, Settings())
    calibrate.run(stage)
    sets = {r["sample_id"]: r for r in read_table(Path("sets.parquet"), CONFORMAL_SETS).to_pylist()}
    return stage, sets, read_table(Path("thresholds.parquet"), CONFORMAL_THRESHOLDS).to_pylist()


CATEGORIES = ["rare"] * 9 + [f"{'ab'[i % 2]}" for i in range(109)] + ["", ""]


def test_each_part_of_the_questions_has_a_threshold_or_none_and_no_other_in_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stage, sets, limits = parted("category", CATEGORIES)
    by = {r["part"]: r for r in limits}
    assert set(by) == {"a", "b", "rare"} | ({None} if None in by else set()) and all(r["per"] == "category" for r in limits)
    assert by["rare"]["threshold"] is None and by["rare"]["coverage"] is None
    test = {p: [r for i, r in enumerate(sets.values()) if CATEGORIES[i] == p and not r["is_calibration"]] for p in ("a", "b", "rare", "")}
    for part in ("a", "b"):
        assert by[part]["coverage"] == pytest.approx(sum(r["covered"] for r in test[part]) / len(test[part]))
        assert by[part]["mean_size"] == pytest.approx(sum(r["set_size"] for r in test[part]) / len(test[part]))
        assert by[part]["n_test"] == len(test[part]) and by[part]["band_low"] < 0.9 < by[part]["band_high"]
    assert by["a"]["threshold"] != by["b"]["threshold"]
    assert test["rare"] and all(r["covered"] is r["set_size"] is r["set_mask"] is None for r in test["rare"] + test[""])
    assert stage.provenance is not None and len(test[""]) == by.get(None, {"n_test": 0})["n_test"]


def test_parts_by_letter_have_sets_for_all_and_one_threshold_for_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, sets, limits = parted("label", CATEGORIES)
    assert [r["part"] for r in limits] == list("ABCD") and all(r["threshold"] is not None for r in limits)
    assert all(r["covered"] is not None for r in sets.values())
    assert sum(r["n_calibration"] for r in limits) == 60


EVEN = [f"{'ab'[i % 3 % 2]}" for i in range(118)] + ["", ""]


def test_within_parts_each_is_split_as_if_it_were_the_whole_dataset(tmp_path, monkeypatch):
    from sklearn.model_selection import train_test_split

    monkeypatch.chdir(tmp_path)
    _, sets, limits = parted("category", EVEN, within="category")
    calibrates = {f"s{i}" for part in "ab" for i in train_test_split(part_rows(part), train_size=0.5, random_state=42)[0]}
    assert {name for name, row in sets.items() if row["is_calibration"]} == calibrates
    assert {r["part"]: r["n_calibration"] for r in limits} == {"a": 39, "b": 19, None: 0}
    assert all(sets[f"s{i}"]["set_mask"] is None for i in (118, 119)), "a question of no part has no set"


def part_rows(part):
    return [i for i, category in enumerate(EVEN) if category == part]


def test_within_parts_whole_groups_are_on_one_side_of_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    groups = [f"g{i // 4}" for i in range(120)]
    _, sets, _ = parted("category", EVEN, groups=groups, within="category", split="groups")
    sides = {}
    for i in range(118):
        sides.setdefault((EVEN[i], groups[i]), set()).add(sets[f"s{i}"]["is_calibration"])
    assert all(len(of) == 1 for of in sides.values()) and set.union(*sides.values()) == {True, False}
    assert any(sides["a", g] != sides["b", g] for g in set(groups) if ("a", g) in sides and ("b", g) in sides)


@pytest.mark.parametrize(
    ("categories", "split", "why"),
    [
        (["rare", *EVEN[1:]], "rows", "calibration fraction 0.5 of 1 rows leaves one side of the split empty; use more samples"),
        (CATEGORIES, "rows", "4 of its 9 questions calibrate, and a threshold at alpha 0.1 needs 9; take more questions, a larger alpha"),
        (CATEGORIES, "groups", "1 groups of its 9 questions calibrate, and a threshold at alpha 0.1 needs 9; take more"),
    ],
)
def test_a_part_too_small_to_calibrate_within(tmp_path, monkeypatch, categories, split, why):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StageError, match=f"conformal setting 'parted', dataset 'd': category 'rare': {why}"):
        parted("category", categories, groups=[f"g{i // 5}" for i in range(120)], within="category", split=split)


@pytest.mark.parametrize(
    ("field", "why"),
    [("kindd", "it is not a field of these samples, and keys of their meta are: kind"), ("source", "it is empty in all of them, and keys")],
)
def test_a_field_that_no_sample_has(tmp_path, monkeypatch, field, why):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StageError, match=f"conformal setting 'parted', per: no sample of dataset d has '{field}': {why}"):
        parted(field, CATEGORIES, metas=[("kind", "x")])


def test_in_whatever_order_models_and_data_sets_come_the_tables_are_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    same = {"question": "?", "choices": list("ABCD"), "answer_index": 1, "answerable": True, "split": "test", "group": ""}
    for name in "de":
        write_table(Path(name, "samples.parquet"), [same | {"sample_id": f"{name}{i}"} for i in range(N)], SAMPLES)
        rows = [{"sample_id": f"{name}{i}", "variant": "clean", "draw": 0, "option_logits": USUAL} for i in range(N)]
        write_table(Path(f"{name}.parquet"), rows, GENERATIONS)
    tables = []
    for order in (1, -1):
        files = {name: f"{name}.parquet" for name in "de"[::order]}
        inputs = {"datasets": {name: name for name in "de"[::order]}, "generations": dict.fromkeys("mn"[::order], files)}
        outputs = {"sets": "sets.parquet", "thresholds": "thresholds.parquet"}
        calibrate.run(Stage("b/calibrate", "b", "calibrate", "calibrate", {"settings": [setting("ours")]}, inputs, outputs, 7, Settings()))
        tables.append([Path(name).read_bytes() for name in outputs.values()])
    assert tables[0] == tables[1]
    read = read_table(Path("thresholds.parquet"), CONFORMAL_THRESHOLDS).to_pylist()
    assert [(r["model"], r["dataset"]) for r in read] == [("m", "d"), ("m", "e"), ("n", "d"), ("n", "e")]


@pytest.mark.parametrize("options", [64, 65])
def test_sets_hold_sixty_four_options(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    same = {
        "question": "?",
        "choices": [str(k) for k in range(options)],
        "answer_index": 1,
        "answerable": True,
        "split": "test",
        "group": "",
    }
    write_table(Path("data/samples.parquet"), [same | {"sample_id": f"s{i}"} for i in range(N)], SAMPLES)
    logits = [0.0] * (options - 1) + [9.0]
    rows = [{"sample_id": f"s{i}", "variant": "clean", "draw": 0, "option_logits": logits} for i in range(N)]
    write_table(Path("generations.parquet"), rows, GENERATIONS)
    inputs, outputs = {"datasets": {"d": "data"}, "generations": {"m": {"d": "generations.parquet"}}}, {"sets": "s", "thresholds": "t"}
    params = {"settings": [setting("ours", scores=[{"label": "lac", "plugin": "lac", "args": {}}])]}
    one = Stage("b/calibrate", "b", "calibrate", "calibrate", params, inputs, outputs, 7, Settings())
    if options > 64:
        with pytest.raises(StageError, match="a question has 65 options; sets hold at most 64"):
            calibrate.run(one)
    else:
        calibrate.run(one)
        assert {row["set_size"] for row in read_table(Path("s"), CONFORMAL_SETS).to_pylist()} == {64}
