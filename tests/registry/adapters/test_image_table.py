import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.image_table import image_table
from qualm.registry.entries.card import load_card
from qualm.registry.sample import Image, Sample
from tests.support.data.recordings import png


@pytest.fixture
def source(tmp_path):
    (tmp_path / "pics").mkdir()
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / "pics" / name).write_bytes(name.encode())
    (tmp_path / "test.csv").write_text(
        'image,question,answer,kind\na.jpg,"What, here?",cat,x\na.jpg,Who?,,y\nb.jpg,Where?,"[""in"",""inside""]",x\n'
    )
    (tmp_path / "val.jsonl").write_text('{"image": "b.jpg", "question": "?", "answer": "B", "options": ["x", "y"], "kind": "z"}\n')
    return tmp_path


def read(source, context=None, **arguments):
    return list(image_table(context or AdapterContext(source, source=source), images="pics", **arguments))


def test_a_table_and_its_pictures(source):
    made = read(source, category="kind")
    assert [type(item).__name__[0] for item in made] == list("ISSIS")
    assert made[0] == Image("a.jpg", b"a.jpg", "pics/a.jpg")
    first = made[1]
    assert (first.question, first.references, first.category, first.group, first.split) == ("What, here?", ("cat",), "x", "a.jpg", "test")
    assert made[2].references == () and made[4].references == ("in", "inside")
    assert len({s.sample_id for s in made if isinstance(s, Sample)}) == 3


def test_splits_of_several_formats(source):
    made = [s for s in read(source, files={"test": "test.csv", "dev": "val.jsonl"}) if isinstance(s, Sample)]
    assert [s.split for s in made] == ["test", "test", "test", "dev"] and made[3].sample_id.startswith("dev_")
    last = read(source, files={"dev": "val.jsonl"}, choices=["options"], answer_is="letter")[1]
    assert last.choices == ("x", "y") and last.answer_index == 1


def test_a_name_comes_again_in_the_folder_of_another_split(source):
    for split in ("train", "test"):
        (source / "pics" / split).mkdir()
        (source / "pics" / split / "1.jpg").write_bytes(split.encode())
        (source / f"{split}.csv").write_text(f"image,question,answer\n1.jpg,Which?,{split}\n")
    files = {"train": "train.csv", "test": "test.csv"}
    made = list(image_table(AdapterContext(source, source=source), images="pics/{split}", files=files))
    assert [item.data for item in made if isinstance(item, Image)] == [b"train", b"test"]
    samples = [item for item in made if isinstance(item, Sample)]
    assert [(s.image_id, s.references, s.group) for s in samples] == [
        ("train_1.jpg", ("train",), "train_1.jpg"),
        ("test_1.jpg", ("test",), "test_1.jpg"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"question": "query"}, "test.csv: expected the columns query"),
        ({"files": {"dev": "val.jsonl"}, "id": "uid"}, "val.jsonl: line 1, record 0: no column 'uid'"),
        ({"image": "kind"}, "line 2: kind: expected its image at pics/x within"),
    ],
)
def test_what_is_missing_is_named(source, arguments, said):
    with pytest.raises(AdapterError, match=said):
        read(source, **arguments)


def test_paths_do_not_lead_out(source):
    (source.parent / "secret.jpg").write_bytes(b"secret")
    for name in ("../../secret.jpg", str(source.parent / "secret.jpg")):
        (source / "test.jsonl").write_text(json.dumps({"image": name, "question": "?", "answer": "x"}))
        with pytest.raises(AdapterError, match="expected its image at"):
            read(source, files={"test": "test.jsonl"})


def test_bad_rows_are_told(source):
    told = []
    good, cut, short = '{"image": "a.jpg", "question": "?", "answer": "x"}', '{"image":', '{"question": "?"}'
    (source / "val.jsonl").write_text("\n".join([good, cut, short, good.replace("a.jpg", "gone")]))
    context = AdapterContext(source, source=source, bad=lambda error: told.append(str(error)))
    made = read(source, context, files={"dev": "val.jsonl"})
    assert len(made) == 2 and [f"line {n}" in told[i] for i, n in enumerate((2, 3, 4))] == [True] * 3


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    (root / "a.jpg").write_bytes(b"p")
    row = {"image": "a.jpg", "q": "What?", "a": 1, "o": ["x", "y"], "id": "i", "kind": "k", "ok": True, "of": "g", "m": 1.5}
    (root / "a.jsonl").write_text(json.dumps(row) + "\n")
    named = {"question": "q", "answer": "a", "choices": ["o"], "id": "id", "category": "kind", "answerable": "ok", "group": "of"}
    return root, {"files": {"test": "a.jsonl"}, "answer_is": "index", "meta": ["m"], **named}


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_mvi_bench_in_both_layouts(tmp_path, form):
    """The authors' annotations.json, and the mirror's table with its options as JSON text; the right option always comes first."""
    rows = [
        {
            "image": f"images/{i}.png",
            "question": f"What is it ({i})?",
            "answer": "a stool",
            "category": "resemblance",
            "source": "synthetic",
        }
        | {"choices": ["a stool", "a mushroom", "a hat", "a cake"], "type": "misleading" if i % 2 else "normal"}
        for i in range(60)
    ]
    if form == "json":
        (tmp_path / "images").mkdir()
        for i in range(60):
            (tmp_path / f"images/{i}.png").write_bytes(png((i, 0, 0)))
        (tmp_path / "annotations.json").write_text(json.dumps(rows))
    else:
        packed = [
            {**row, "choices": json.dumps(row["choices"]), "image": {"bytes": png((i, 0, 0)), "path": f"{i}.png"}}
            for i, row in enumerate(rows)
        ]
        pq.write_table(pa.Table.from_pylist(packed), tmp_path / "data-00000.parquet")
    card = load_card("mvi_bench")
    args = card.args | ({"files": {"test": "annotations.json"}} if form == "json" else {})
    samples = [item for item in image_table(AdapterContext(tmp_path, source=tmp_path), **args) if isinstance(item, Sample)]
    assert len(samples) == len({sample.sample_id for sample in samples}) == 60
    assert {sample.choices[sample.answer_index] for sample in samples} == {"a stool"}
    places = [sum(sample.answer_index == place for sample in samples) for place in range(4)]
    assert min(places) > 5 and all(set(sample.choices) == set(rows[0]["choices"]) for sample in samples)
    assert {(sample.meta["type"], sample.category) for sample in samples} == {("misleading", "resemblance"), ("normal", "resemblance")}
