"""Samples with several pictures, one and none, through every export and back: no picture is lost without a word, none changes its place."""

import base64
import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.plugins.registry import load
from qualm.registry.sample import IMAGES, SAMPLES, Image
from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.plugins.exports import ExportContext, ExportError
from qualm.runners.plugins.exports.certainly_uncertain import certainly_uncertain
from qualm.runners.plugins.models.recorded import recorded
from qualm.runners.runtime.records import read_table, write_table
from tests.support.data.recordings import inspect_eval, inspect_sample, png, tsv, vek_row
from tests.support.projects.exported import MADE, bits, context, generations, read_back, write

PICTURES = ['["p0", "p1"]', '["p1", "p0", "p3"]', "p2", None]
QUESTIONS = ["Is <image> like <image>?", "Which is the odd one?", "What does <image> mean?", "What is a cone?"]


@pytest.fixture
def ran(tmp_path):
    source = write(tmp_path / "ran", n_open=4, n_choice=0)
    rows = read_table(source / "data/samples.parquet", SAMPLES).to_pylist()
    rows = [{**row, "image_id": name, "question": q} for row, name, q in zip(rows, PICTURES, QUESTIONS, strict=True)]
    write_table(source / "data/samples.parquet", rows, SAMPLES)
    return source


def files(source):
    by_name = {row["image_id"]: row["image"]["bytes"] for row in read_table(source / "data/images/00000.parquet", IMAGES).to_pylist()}
    return [[by_name[name] for name in picture_ids(pictures)] for pictures in PICTURES]


def taken(folder, **args):
    """Question and pictures of every sample that the log gives."""
    made = list(recorded_samples(AdapterContext(folder, source=folder), **args))
    by_name = {m.image_id: m.data for m in made if isinstance(m, Image)}
    return {m.sample_id: (m.question, [by_name[n] for n in picture_ids(m.image_id)]) for m in made if not isinstance(m, Image)}


@pytest.mark.parametrize(
    ("name", "options", "lacking"), [("inspect", {}, 0), ("lm_eval", {}, 0), ("lmms_eval", {}, 0), ("vlmevalkit", {"table": "tsv"}, 1)]
)
def test_answers_come_back_exactly(ran, tmp_path, name, options, lacking):
    load("exports", name)(made := context(ran, tmp_path / "out"), **options)
    wanted = [row for row in generations(ran, draws=name != "vlmevalkit") if not lacking or row["sample_id"] != "id/003 x"]
    assert bits(read_back(tmp_path / "out", ran, lacking=lacking)) == bits(wanted)
    told = {"inspect": 0, "lm_eval": 3, "lmms_eval": 3, "vlmevalkit": 1}[name]
    assert sum(n for what, n in made.lost.items() if "image" in what) == told


def test_inspect_has_every_picture_in_its_place(ran, tmp_path):
    load("exports", "inspect")(context(ran, tmp_path / "out"))
    assert list(taken(tmp_path / "out").values()) == list(zip(QUESTIONS, files(ran), strict=True))


def test_vlmevalkit_lists_them(ran, tmp_path):
    load("exports", "vlmevalkit")(context(ran, tmp_path / "out"), table="tsv")
    assert list(taken(tmp_path / "out", task="d").values()) == list(zip(QUESTIONS, files(ran), strict=True))[:3]


def test_lm_eval_has_no_place_for_pictures_and_its_reader_says_so(ran, tmp_path):
    load("exports", "lm_eval")(context(ran, tmp_path / "out"))
    notes = []
    adapter = AdapterContext(tmp_path, source=tmp_path / "out", note=notes.append)
    assert [m.image_id for m in recorded_samples(adapter)] == [None] * 4
    assert any("3 of 4 questions were asked about images, which are left out here" in note for note in notes)


def test_hugging_face_has_lists(ran, tmp_path):
    import pyarrow.parquet as pq

    load("exports", "hf")(context(ran, tmp_path / "out"))
    rows = pq.read_table(next((tmp_path / "out/data").glob("*.parquet"))).to_pylist()
    assert [[picture["bytes"] for picture in row["images"]] for row in rows] == files(ran)


def test_our_layout_of_pairs_refuses_several(ran, tmp_path):
    (tmp_path / "out").mkdir()
    own = ExportContext(folder=tmp_path / "out", spec="s", parts=(), time=MADE, datasets={"d": ran / "data"})
    with pytest.raises(ExportError, match=r"dataset 'd': sample 'id/000 x' has 2 images; this layout holds one for each question"):
        certainly_uncertain(own)


def test_answers_to_another_number_of_pictures_are_left_out(ran, tmp_path):
    load("exports", "inspect")(context(ran, tmp_path / "out"))
    rows = read_table(ran / "data/samples.parquet", SAMPLES).to_pylist()
    write_table(ran / "data/samples.parquet", [{**row, "image_id": "p2"} for row in rows], SAMPLES)
    model = recorded(ModelContext("m", folder=tmp_path / "out"), source="elsewhere")
    found = model.lookup("d", read_table(ran / "data/samples.parquet", SAMPLES))
    assert set(found["sample_id"].to_pylist()) == {"id/002 x", "id/003 x"}
    assert next(f.what for f in model.left_out if f.reason == "another number of images") == "2, sample id/000 x has 1"
    unchecked = recorded(ModelContext("m", folder=tmp_path / "out"), source="elsewhere", check_questions=False)
    assert unchecked.lookup("d", read_table(ran / "data/samples.parquet", SAMPLES)).num_rows == len(generations(ran))


def url(data):
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def turn(*parts):
    content = [{"type": "image", "image": part} if part.startswith(("data:", "/")) else {"type": "text", "text": part} for part in parts]
    return {"id": "u", "role": "user", "content": content, "source": "input"}


@pytest.mark.parametrize(
    ("turns", "question", "pictures"),
    [
        ([turn("RED", "BLUE", "Same?")], "Same?", 2),
        ([turn("Is ", "RED", " like ", "BLUE", "?")], "Is <image> like <image>?", 2),
        ([turn("Look.", "RED")], "Look.", 1),
        ([turn("What is a cone?")], "What is a cone?", 0),
    ],
)
def test_a_foreign_log_keeps_places(tmp_path, turns, question, pictures):
    data = {"RED": png("red"), "BLUE": png("blue")}
    text = json.dumps(turns)
    for name in data:
        text = text.replace(f'{{"type": "text", "text": "{name}"}}', json.dumps({"type": "image", "image": url(data[name])}))
    inspect_eval(tmp_path / "x.eval", inspect_sample("a", "?", "x", "x") | {"input": json.loads(text)})
    assert taken(tmp_path) == {"a": (question, list(data.values())[:pictures])}


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([turn("/home/me/a.png", "What?")], "an image of it is not in the log"),
        ([turn(url(png()), "Like this?"), turn(url(png()), "Or this?")], "it has images in several turns"),
        ([turn(*[url(png())] * 65, "What?")], "it has 65 images; more than 64 cannot be read"),
    ],
)
def test_pictures_that_cannot_be_kept_end_the_run(tmp_path, turns, reason):
    inspect_eval(tmp_path / "x.eval", inspect_sample("a", "?", "x", "x") | {"input": turns})
    with pytest.raises(AdapterError, match=f"no usable images: {reason}"):
        taken(tmp_path)
    assert taken(tmp_path, pictures="none")["a"][1] == []


def test_marks_that_do_not_fit_end_the_run(tmp_path):
    cell = json.dumps([base64.b64encode(png(side=64)).decode()] * 2)
    tsv(tmp_path / "d.tsv", [{**vek_row(1), "question": "Is <image> red?", "image": cell}])
    tsv(tmp_path / "m_d.tsv", [vek_row(1, "B")])
    with pytest.raises(AdapterError, match="the question has 1 marks <image> and the sample 2 images"):
        taken(tmp_path, task="d")


def test_a_recording_of_none_of_them(ran, tmp_path):
    inspect_eval(tmp_path / "x.eval", inspect_sample("other", "?", "x", "x"))
    with pytest.raises(ModelError, match="not one answer to dataset 'd'"):
        recorded(ModelContext("m", folder=tmp_path / "x.eval"), source="s").lookup("d", read_table(ran / "data/samples.parquet", SAMPLES))
