"""Pairs as the assemble stage leaves them -> our layout -> the adapter: the same samples and pictures, and then the same files."""

import json
from datetime import UTC, datetime

import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.certainly_uncertain import certainly_uncertain as read_back
from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample
from qualm.runners.data.rows import as_row
from qualm.runners.plugins.exports import DatasetCredits, ExportContext, ExportError
from qualm.runners.plugins.exports.certainly_uncertain import certainly_uncertain
from qualm.runners.runtime.records import iterate_rows, read_table, write_table
from qualm.runners.runtime.settings import Settings
from tests.support.data.tiny_pairs import write_pairs

ODD = "scenes/übung 1?.png"


def assembled(root, renamed=(("clean1", ODD),)):
    """The tables of a pair set, with one picture of a name that is no file's."""
    recipe, source = write_pairs(root)
    out = root / "ours"
    rows = read_table(recipe / "samples.parquet", SAMPLES).to_pylist()
    pictures = [row for folder in (recipe, source) for row in iterate_rows(folder / "images", IMAGES)]
    for row in rows + pictures:
        row["image_id"] = dict(renamed).get(row["image_id"], row["image_id"])
    write_table(out / "samples.parquet", rows, SAMPLES)
    write_table(out / "images" / "00000.parquet", pictures, IMAGES)
    return out


def export(folder, out, **options):
    out.mkdir(parents=True)
    about = {"ours": DatasetCredits("Scenes", "MIT")}
    context = ExportContext(
        out, "bench", (), datetime(2026, 1, 1, tzinfo=UTC), Settings(progress=False), about=about, datasets={"ours": folder}
    )
    certainly_uncertain(context, **options)
    return context


def samples_of(folder):
    found = {}
    for row in read_table(folder / "samples.parquet", SAMPLES).to_pylist():
        lists = {"references": tuple(row["references"]), "choices": tuple(row["choices"]), "meta": dict(row["meta"] or ())}
        found[row["sample_id"]] = Sample(**{**row, **lists})
    return found


def kept(folder, made):
    """What the adapter gave, as a data stage lays it down."""
    write_table(folder / "samples.parquet", [as_row(x) for x in made if isinstance(x, Sample)], SAMPLES)
    pictures = [{"image_id": x.image_id, "image": {"bytes": x.data, "path": x.path}} for x in made if isinstance(x, Image)]
    write_table(folder / "images" / "00000.parquet", pictures, IMAGES)
    return folder


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_round_trip(tmp_path, form):
    before = assembled(tmp_path)
    context = export(before, tmp_path / "one", form=form)
    made = list(read_back(AdapterContext(tmp_path, source=tmp_path / "one")))
    own = samples_of(before)
    assert context.counts["samples"] == len(own) == 24
    found = {x.sample_id: x for x in made if isinstance(x, Sample)}
    assert {x.meta["contrast"] for x in found.values() if x.category.startswith("ep")} == {"image"}
    assert {x.meta["contrast"] for x in found.values() if x.category.startswith("al")} == {"question"}
    for name, sample in found.items():
        assert {**as_row(sample), "meta": {k: v for k, v in sample.meta.items() if k != "contrast"}} == {
            **as_row(own[name]),
            "meta": dict(own[name].meta),
        }
    pictures = {row["image_id"]: row["image"]["bytes"] for row in iterate_rows(before / "images", IMAGES)}
    assert {x.image_id: x.data for x in made if isinstance(x, Image)} == pictures
    export(kept(tmp_path / "again", made), tmp_path / "two", form=form)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(tmp_path / "two") for p in (tmp_path / "two").rglob("*") if p.is_file())
    assert all((tmp_path / "one" / f).read_bytes() == (tmp_path / "two" / f).read_bytes() for f in files)


def test_the_files(tmp_path):
    export(assembled(tmp_path), tmp_path / "out")
    names = sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert names[:1] == ["README.md"] and {"test.jsonl", "train.jsonl", "images/clean0.png", "images/gone1.png"} <= set(names)
    assert next(n for n in names if "bung" in n).startswith("images/scenes-bung-1-.png-")
    first = json.loads((tmp_path / "out/test.jsonl").read_text().splitlines()[0])
    assert first["answers"] == ["red"] and first["image"] == "images/clean0.png" and first["contrast"] == "image"
    assert "| test | epistemic/extraneous | 3 | 3 |" in (tmp_path / "out/README.md").read_text()


def test_each_of_several_data_sets_has_a_folder(tmp_path):
    context = export(before := assembled(tmp_path), tmp_path / "out")
    context.datasets = {"ours": before, "the others": before}
    context.about["the others"] = context.about["ours"]
    certainly_uncertain(context)
    alone = (tmp_path / "out/test.jsonl").read_text(encoding="utf-8")
    assert [(tmp_path / "out" / name / "test.jsonl").read_text(encoding="utf-8") for name in ("ours", "the-others")] == [alone] * 2
    assert ODD in alone + (tmp_path / "out/train.jsonl").read_text(encoding="utf-8"), "as it is written, without escapes"


def test_pictures_whose_names_come_to_one_keep_their_own_files(tmp_path):
    before = assembled(tmp_path, [("clean0", "a"), ("gone0", "a.png"), ("gone1", "A")])
    export(before, tmp_path / "out")
    made = read_back(AdapterContext(tmp_path, source=tmp_path / "out"))
    pictures = {row["image_id"]: row["image"]["bytes"] for row in iterate_rows(before / "images", IMAGES)}
    assert pictures["a"] not in (pictures["a.png"], pictures["A"])
    assert {x.image_id: x.data for x in made if isinstance(x, Image)} == pictures
    files = [p.name for p in (tmp_path / "out/images").iterdir()]
    assert len(files) == len(pictures) == len({name.lower() for name in files}) and "a.png" in files


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"choices": ["a", "b"]}, "has options; this layout is for open questions"),
        ({"references": []}, "has no answer"),
        ({"category": ""}, "has no category"),
        ({"answerable": False}, "pair 'testtest0'|pair '.*': expected an answerable and an unanswerable member"),
    ],
)
def test_what_the_layout_cannot_hold(tmp_path, change, says):
    before = assembled(tmp_path)
    rows = read_table(before / "samples.parquet", SAMPLES).to_pylist()
    rows[0] |= change
    write_table(before / "samples.parquet", rows, SAMPLES)
    with pytest.raises(ExportError, match=says):
        export(before, tmp_path / "out")
