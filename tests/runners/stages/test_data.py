import json
from collections import Counter
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qualm.runners.stages.data as data
from qualm.registry.adapters import AdapterError, synthetic_scenes
from qualm.registry.formats.vub_layout import APPENDED
from qualm.registry.plugins import registry
from qualm.registry.preparations import PreparationError
from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample
from qualm.runners.data import dataset_writer
from qualm.runners.data.rows import choose_stratified
from qualm.runners.runtime.records import read_provenance, read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from tests.support.data.scenes_folder import ABOUT

ARGS = {"level": "easy", "format": "open", "train": 0, "val": 0, "test": 15, "questions": 3, "kinds": None}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(synthetic_scenes, "CHUNK", 4)  # whole chunks are drawn


def stage(limit=None, workers=1, select=(), **arguments):
    params = {"dataset": "scenes", "card": "synthetic_scenes", "adapter": "synthetic_scenes", "args": {**ARGS, **arguments}, "limit": limit}
    params |= {"about": ABOUT, **dict(select)}
    outputs = {"dataset": "results/s/data/scenes", "card": "results/s/data/scenes.md"}
    return Stage("s/data", "s", "data", "data", params, {}, outputs, 7, Settings(workers=workers, progress=False))


def folder_bytes(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_folder_holds_samples_images_and_scenes(tmp_path):
    one = stage()
    data.run(one)
    root = tmp_path / "results/s/data/scenes"
    samples, images = read_table(root / "samples.parquet", SAMPLES), read_table(root / "images", IMAGES)
    assert samples.num_rows == one.counters["samples"] == 15
    assert images.num_rows == one.counters["images"] == 5
    assert set(samples["image_id"].to_pylist()) == set(images["image_id"].to_pylist())
    assert dict(samples["meta"][0].as_py())["level"] == "easy"
    assert len(json.loads((root / "scenes/CLEVR_test_scenes.json").read_text())["scenes"]) == 5
    assert read_provenance(root / "samples.parquet")["stage"] == "s/data"
    assert b"huggingface" in pq.read_schema(root / "images/00000.parquet").metadata


@pytest.mark.slow
def test_workers_and_reruns_give_the_same_bytes(tmp_path):
    root = tmp_path / "results/s/data/scenes"
    seen = []
    for workers in (1, 2, 1):
        data.run(stage(workers=workers, test=400))
        seen.append(folder_bytes(root))
    assert seen[0] == seen[1] == seen[2]


def test_pictures_are_kept_once_whatever_is_asked_of_them(tmp_path):
    root = tmp_path / "results/s/data/scenes"
    kept = []
    for select in ({}, {"uncertain": "category == 'count'"}):
        data.run(stage(select=select))
        kept.append(folder_bytes(root))
    assert kept[0]["samples.parquet"] != kept[1]["samples.parquet"]
    assert kept[0]["images/00000.parquet"] == kept[1]["images/00000.parquet"]
    assert read_provenance(root / "images/00000.parquet") == {}


def test_limit_is_stratified_and_only_adds(tmp_path):
    kept = []
    for limit in (4, 9):
        one = stage(limit=limit)
        data.run(one)
        table = read_table(tmp_path / "results/s/data/scenes/samples.parquet", SAMPLES)
        kept.append(table["sample_id"].to_pylist())
        assert one.counters["samples"] == limit and one.counters["left_out"] == 15 - limit
        images = read_table(tmp_path / "results/s/data/scenes/images", IMAGES)
        assert set(images["image_id"].to_pylist()) == set(table["image_id"].to_pylist())
    assert set(kept[0]) < set(kept[1])
    assert kept[1] == sorted(kept[1])  # the source's order


@given(st.lists(st.sampled_from("aaab"), min_size=1, max_size=60), st.integers(0, 60), st.integers(0, 5))
def test_choose_is_nested_and_proportional(categories, limit, seed):
    samples = [(f"s{i}", c) for i, c in enumerate(categories)]
    chosen = choose_stratified(samples, limit, seed)
    assert len(chosen) == min(limit, len(samples))
    assert chosen <= choose_stratified(samples, limit + 1, seed)
    sizes, taken = Counter(categories), Counter(c for s, c in samples if s in chosen)
    for category, n in sizes.items():
        assert abs(taken[category] - len(chosen) * n / len(samples)) <= 1


def test_a_limit_of_images_keeps_all_their_questions(tmp_path):
    one = stage(limit={"unit": "images", "of": {"test": 2}})
    data.run(one)
    table = read_table(tmp_path / "results/s/data/scenes/samples.parquet", SAMPLES)
    assert len(set(table["image_id"].to_pylist())) == 2 == one.counters["images"] and table.num_rows == one.counters["samples"] >= 2
    with pytest.raises(StageError, match="dataset scenes: limit: no sample has pair ids to count by"):
        data.run(stage(limit={"unit": "pairs", "of": {"": 4}}))


def give(monkeypatch, items):
    def adapter(context, **_):
        yield from items

    monkeypatch.setattr(data, "load", lambda kind, name: adapter)


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([Sample("a", "q?"), Sample("a", "q?")], "sample 'a' comes twice"),
        ([Image("i", b""), Image("i", b"")], "image 'i' comes twice"),
        ([Sample("a", "q?", image_id="i")], "its image 'i' has not come before"),
        ([Sample("a", "q?", choices=("x",), answer_index=1)], "answer_index 1 is not one of its 1 choices"),
        ([], "gave no samples"),
    ],
)
def test_bad_adapters_are_found_out(monkeypatch, tmp_path, items, says):
    give(monkeypatch, items)
    with pytest.raises(StageError, match=says):
        data.run(stage())
    assert not (tmp_path / "results").exists()


def test_adapter_error_becomes_the_stage_s(monkeypatch):
    def adapter(context, **_):
        raise AdapterError("x.json: missing")
        yield

    monkeypatch.setattr(data, "load", lambda kind, name: adapter)
    with pytest.raises(StageError, match=r"x\.json: missing"):
        data.run(stage())


def counted(n=40):
    for i in range(n):
        yield Image(f"i{i}", b"png")
        yield Sample(f"s{i}", "q?", image_id=f"i{i}", category="ab"[i % 2], meta={"LQI": str(i % 6)} if i % 5 else {"INV": "1"})


def selected(tmp_path, select, limit=None):
    one = stage(limit, select=select)
    data.run(one)
    root = tmp_path / "results/s/data/scenes"
    return (
        one.counters,
        read_table(root / "samples.parquet", SAMPLES).to_pylist(),
        read_table(root / "images", IMAGES)["image_id"].to_pylist(),
    )


def test_where_takes_some_samples_and_their_pictures(monkeypatch, tmp_path):
    give(monkeypatch, counted())
    counters, rows, images = selected(tmp_path, {"where": "LQI >= 4"})
    wanted = [i for i in range(40) if i % 5 and i % 6 >= 4]
    assert [r["sample_id"] for r in rows] == [f"s{i}" for i in wanted]
    assert images == [f"i{i}" for i in wanted]
    assert counters == {"samples": len(wanted), "images": len(wanted), "left_out_by_where": 40 - len(wanted), "where_undefined": 8}


def test_a_limit_is_of_what_where_selects(monkeypatch, tmp_path):
    give(monkeypatch, counted())
    counters, rows, images = selected(tmp_path, {"where": "category == 'a'"}, limit=7)
    assert {r["category"] for r in rows} == {"a"} and len(rows) == len(images) == 7
    assert (counters["left_out_by_where"], counters["left_out"]) == (20, 13)


def test_an_adapter_may_ask_first(monkeypatch, tmp_path):
    def adapter(context, **_):
        for i in range(10):
            sample = Sample(f"s{i}", "q?", image_id=f"i{i}", meta={"LQI": str(i)})
            if context.selects(sample):
                yield Image(f"i{i}", b"png")
                yield sample

    monkeypatch.setattr(data, "load", lambda kind, name: adapter)
    counters, rows, images = selected(tmp_path, {"where": "LQI in (2, 7)"})
    assert images == ["i2", "i7"] and len(rows) == 2
    assert counters == {"samples": 2, "images": 2, "left_out_by_where": 8, "where_undefined": 0}
    with pytest.raises(StageError, match="where: selects none of 10 samples: LQI > 9"):
        selected(tmp_path, {"where": "LQI > 9"})


def test_uncertain_is_noted_where_it_is_defined(monkeypatch, tmp_path):
    give(monkeypatch, counted())
    _, rows, _ = selected(tmp_path, {"where": "LQI <= 1 or LQI >= 4 or INV == 1", "uncertain": "LQI >= 4"})
    for row in rows:
        meta = dict(row["meta"])
        assert meta.get("uncertain") == (None if "INV" in meta else str(int(int(meta["LQI"]) >= 4)))


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ({"where": "LQO > 1"}, "where: no sample has the field 'LQO'; there are: sample_id, .*, INV, LQI"),
        ({"where": "LQI > 9"}, "selects none of 40 samples, undefined for 8 of them: LQI > 9"),
        ({"uncertain": "LQO > 1"}, "uncertain: no sample has the field 'LQO'"),
        (
            {"where": "LQI > 3", "disjoint": {"low": "LQI < 5"}},
            "disjoint: expected no shared samples, got .* with 'low': s",
        ),
    ],
)
def test_a_selection_that_cannot_be(monkeypatch, tmp_path, select, says):
    give(monkeypatch, counted())
    with pytest.raises(StageError, match=says):
        data.run(stage(select=select))
    assert not (tmp_path / "results").exists()


def test_overlapping_ids_are_named_and_counted(monkeypatch):
    give(monkeypatch, counted())
    both = [f"s{i}" for i in range(40) if i % 5 and i % 6 == 4]
    with pytest.raises(StageError) as caught:
        data.run(stage(select={"where": "LQI >= 4", "disjoint": {"high": "LQI == 4", "none": "LQI == 0"}}))
    assert str(caught.value).endswith(f"got {len(both)} with 'high': {', '.join(both[:10])}; change one of their `where:`")


def test_subsets_that_share_nothing(monkeypatch, tmp_path):
    give(monkeypatch, counted())
    counters, *_ = selected(tmp_path, {"where": "LQI >= 4", "disjoint": {"low": "LQI < 4"}})
    assert counters["samples"] > 0


def test_text_where_a_count_was_expected(monkeypatch):
    give(monkeypatch, [Sample("a", "q?", meta={"LQI": "many"})])
    with pytest.raises(StageError, match=r"dataset scenes: where: sample 'a': expected a number in meta\.LQI, got 'many'"):
        data.run(stage(select={"where": "LQI > 1"}))


def test_asking_whether_a_question_is_uncertain(monkeypatch, tmp_path):
    give(monkeypatch, counted())
    (tmp_path / "p.md").write_text("<!-- a comment -->\nIs this unclear: {question}\n")
    counters, rows, images = selected(tmp_path, {"uncertain": "LQI >= 4", "ask_answerable": "p.md"})
    assert len(rows) == len(images) == 32 and counters["where_undefined"] == counters["left_out_by_where"] == 8
    for row in rows:
        meta = dict(row["meta"])
        assert row["question"] == "Is this unclear: q?" and meta["asked"] == "q?" and row["answerable"]
        assert row["references"] == ["yes" if int(meta["LQI"]) >= 4 else "no"] and meta["uncertain"] == str(int(int(meta["LQI"]) >= 4))


def test_what_cannot_be_answered_is_uncertain_unless_said_otherwise(monkeypatch, tmp_path):
    give(monkeypatch, [Sample("a", "q?", answerable=False), Sample("b", "r {question}?", references=("x",))])
    (tmp_path / "p.md").write_text("{question}")
    counters, rows, _ = selected(tmp_path, {"ask_answerable": "p.md"})
    assert [(r["question"], r["references"], dict(r["meta"])["uncertain"]) for r in rows] == [
        ("q?", ["yes"], "1"),
        ("r {question}?", ["no"], "0"),
    ]
    assert counters == {"samples": 2, "images": 0}


def test_only_open_questions_are_asked_about(monkeypatch, tmp_path):
    give(monkeypatch, [Sample("a", "q?", choices=("x", "y"), answer_index=0)])
    (tmp_path / "p.md").write_text("{question}")
    with pytest.raises(StageError, match="ask_answerable: sample 'a' has options"):
        data.run(stage(select={"ask_answerable": "p.md"}))


def bad_source(folder):
    """VizWiz's layout with a record of another kind, one twice, and one without its picture."""
    answers = [{"answer": "red", "answer_confidence": "yes"}] * 10
    good = {"question": "?", "answers": answers, "answer_type": "other", "answerable": 1}
    records = [{**good, "image": f"VizWiz_val_{i:08d}.jpg"} for i in (0, 1, 1, 2, 3)]
    records[4]["answerable"] = 7
    (folder / "Annotations").mkdir(parents=True)
    (folder / "Annotations/val.json").write_text("[" + ",\n".join(map(json.dumps, records)) + "]")
    (folder / "val").mkdir()
    for i in (0, 1, 3):
        (folder / f"val/VizWiz_val_{i:08d}.jpg").write_bytes(b"jpg")
    return folder


def vizwiz(source, **more):
    params = {"dataset": "v", "card": "vizwiz", "adapter": "vizwiz", "args": {"split": "val"}, "limit": None, "about": ABOUT, **more}
    return Stage(
        "s/v", "s", "v", "data", params, {"source": str(source)}, {"dataset": "out", "card": "out.md"}, 7, Settings(progress=False)
    )


def test_bad_records_end_the_run_or_are_listed_and_counted(tmp_path, capsys):
    source = bad_source(tmp_path / "source")
    advice = r"`qualm data check source` lists all bad records, `skip_bad: true` leaves them out"
    with pytest.raises(StageError, match=rf"'VizWiz_val_00000001' comes twice.* \(at .*val\.json: line 3, record 2\); {advice}$"):
        data.run(vizwiz(source))
    assert not (tmp_path / "out").exists()
    one = vizwiz(source, skip_bad=True)
    data.run(one)
    assert read_table(tmp_path / "out/samples.parquet", SAMPLES)["sample_id"].to_pylist() == ["VizWiz_val_00000000", "VizWiz_val_00000001"]
    assert one.counters == {"samples": 2, "images": 2, "left out (bad records)": 3}
    said = capsys.readouterr().err
    assert "3 x bad records" in said and "comes twice" in said
    assert "val.json: line 4, record 3: expected its image at val/VizWiz_val_00000002.jpg" in said
    assert "val.json: line 5, record 4: answerable: expected 0 or 1, got 7" in said


def test_where_all_records_are_bad_nothing_is_made(tmp_path):
    source = bad_source(tmp_path / "source")
    (source / "Annotations/val.json").write_text('[{"a": 1}, {"b": 2}]')
    with pytest.raises(StageError, match=r"gave no samples.*all 2 are bad, the first: .*record 0: missing image"):
        data.run(vizwiz(source, skip_bad=True))


CHOICES = [Sample(f"s{i}", "q?", image_id=f"i{i}", choices=(f"{i} yes", f"{i} no"), answer_index=i % 2, group=f"g{i}") for i in range(9)]


def prepared(monkeypatch, tmp_path, prepare, limit=None):
    def adapter(context, **_):
        for sample in CHOICES:
            yield Image(sample.image_id, b"png")
            yield sample

    monkeypatch.setattr(data, "load", lambda kind, name: adapter)
    monkeypatch.setattr(dataset_writer, "load", lambda kind, name: prepare)
    return selected(tmp_path, {"prepare": {"plugin": "p", "args": {"bang": "!"}}}, limit)


def shout(context, samples, *, bang):
    assert (context.dataset, context.seed) == ("scenes", 7)
    for sample in samples:
        if sample.sample_id != "s4":
            yield replace(sample, choices=(*sample.choices, bang), meta={"k": "v"})


def test_samples_are_made_over_and_some_left_out(monkeypatch, tmp_path):
    counters, rows, images = prepared(monkeypatch, tmp_path, shout)
    assert [r["sample_id"] for r in rows] == [f"s{i}" for i in range(9) if i != 4] and "i4" not in images
    assert rows[0]["choices"] == ["0 yes", "0 no", "!"] and rows[0]["group"] == "g0" and rows[0]["meta"] == [("k", "v")]
    assert counters == {"samples": 8, "images": 8, "left_out_by_preparation": 1}


def test_a_limit_is_of_what_was_made_over(monkeypatch, tmp_path):
    few = [r["sample_id"] for r in prepared(monkeypatch, tmp_path, shout, limit=3)[1]]
    more = [r["sample_id"] for r in prepared(monkeypatch, tmp_path, shout, limit=5)[1]]
    assert len(few) == 3 and set(few) < set(more) and "s4" not in more


def test_a_preparation_makes_no_samples_of_its_own(monkeypatch, tmp_path):
    def other(context, samples, *, bang):
        yield replace(samples[0], sample_id="new")

    def backwards(context, samples, *, bang):
        yield from reversed(samples)

    def nothing(context, samples, *, bang):
        yield from ()

    def wrong(context, samples, *, bang):
        raise PreparationError("sample 's0': no options")
        yield

    for function, says in (
        (other, "p gave sample 'new', which is not among the next ones"),
        (backwards, "p gave sample 's7', which is not among the next ones"),
        (nothing, "p left out all of 9 samples"),
        (wrong, "sample 's0': no options"),
    ):
        with pytest.raises(StageError, match=says):
            prepared(monkeypatch, tmp_path, function)


def test_six_options_of_drawn_scenes(tmp_path):
    args = {p.name: p.default for p in registry.get("preparations", "six_options").parameters}
    data.run(stage(format="multiple_choice", select={"prepare": {"plugin": "six_options", "args": args}}))
    made = read_table(tmp_path / "results/s/data/scenes/samples.parquet", SAMPLES).to_pylist()
    data.run(stage(format="multiple_choice"))
    plain = read_table(tmp_path / "results/s/data/scenes/samples.parquet", SAMPLES).to_pylist()
    assert len(made) == len(plain) == 15
    for before, after in zip(plain, made, strict=True):
        assert after["sample_id"] == before["sample_id"] and after["choices"][4:] == list(APPENDED) and len(set(after["choices"])) == 6
        assert after["choices"][after["answer_index"]] == before["choices"][before["answer_index"]]
    assert [r["answer_index"] for r in made] != [r["answer_index"] for r in plain]


def test_as_many_of_each_class(tmp_path):
    select = {"uncertain": "category == 'counting'", "balance": {"take": 2, "by": "uncertain", "shortfall": "error", "seed": 7}}
    one = stage(select=select)
    data.run(one)
    root = tmp_path / "results/s/data/scenes"
    table = read_table(root / "samples.parquet", SAMPLES)
    marks = Counter(dict(meta)["uncertain"] for meta in table["meta"].to_pylist())
    assert marks == {"0": 2, "1": 2} and one.counters["samples"] == 4 and "left_out" not in one.counters
    assert (one.counters["balanced (uncertain)"], one.counters["left out (balance)"]) == (2, 11)
    assert set(read_table(root / "images", IMAGES)["image_id"].to_pylist()) == set(table["image_id"].to_pylist())
    card = (tmp_path / "results/s/data/scenes.md").read_text()
    assert "- left out (balance): 11" in card and "- balanced" not in card
    with pytest.raises(StageError, match="balance: expected 40 of each class of 'uncertain'"):
        data.run(stage(select={**select, "balance": {**select["balance"], "take": 40}}))


def test_a_balance_is_of_what_is_scored(tmp_path):
    how = {"take": 2, "by": "category", "shortfall": "error", "seed": 7}
    data.run(stage(train=6, select={"balance": how, "splits": {"scenes": ["test"]}}))
    table = read_table(tmp_path / "results/s/data/scenes/samples.parquet", SAMPLES)
    splits = Counter(table["split"].to_pylist())
    categories = set(table["category"].to_pylist())
    assert splits["train"] == 6 and splits["test"] % 2 == 0 and splits["test"] <= 2 * len(categories)
