"""What people are asked holds no answers; filled in, it is read as the recording of a model that was asked a part."""

import csv
from datetime import UTC, datetime

import pytest

from qualm.registry.recordings.record import blind_id
from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample
from qualm.runners.contracts.models import ModelContext
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.rows import as_row
from qualm.runners.data.splits import SplitRule
from qualm.runners.plugins.exports import ExportContext
from qualm.runners.plugins.exports.questionnaire import COLUMNS, questionnaire
from qualm.runners.plugins.models.recorded import recorded
from qualm.runners.runtime.records import write_table
from tests.support.data.recordings import png

REFERENCES = {True: ("red",), False: ("I cannot tell.",)}


@pytest.fixture
def folder(tmp_path):
    """Ten pairs of two categories, some of the validation split; two questions begin as a formula would."""
    samples = [
        Sample(
            f"{c}{k}{'y' if answerable else 'n'}", f"=Which {k}?" if k == 0 else f"Which {k}?", f"i{k}", REFERENCES[answerable],
            category=f"epistemic/{c}", answerable=answerable, split="val" if k > 7 else "test", pair_id=f"{c}{k}", group=f"g{k}",
        )
        for c in ("a", "b")
        for k in range(10)
        for answerable in (True, False)
    ]  # fmt: skip
    write_table(tmp_path / "ours" / "samples.parquet", [as_row(s) for s in samples], SAMPLES)
    pictures = [Image(f"i{k}", png(side=8 + k), f"secret-{k}.png") for k in range(10)]
    rows = [{"image_id": x.image_id, "image": {"bytes": x.data, "path": x.path}} for x in pictures]
    write_table(tmp_path / "ours" / "images" / "00000.parquet", rows, IMAGES)
    return tmp_path / "ours"


def exported(folder, out, **options):
    out.mkdir()
    questionnaire(ExportContext(out, "bench", (), datetime(2026, 1, 1, tzinfo=UTC), datasets={"ours": folder}), **options)
    with (out / "people_ours.tsv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle, delimiter="\t"))


def test_it_has_the_questions_of_the_part_and_no_answers(folder, tmp_path):
    rows = exported(folder, tmp_path / "out", per_category=6, seed=3)
    part = DatasetFolder("ours", folder, SplitRule(subset=(6, 3)))
    assert {r["sample_id"] for r in rows} == {blind_id(s["sample_id"]) for s in part.samples} and len(rows) == 12
    assert tuple(rows[0]) == COLUMNS and {r["prediction"] for r in rows} == {""}
    text = (tmp_path / "out" / "people_ours.tsv").read_text()
    assert not any(s["sample_id"] in text for s in part.samples), "ids of pairs end on what is right"
    assert '"red"' not in text and "epistemic" not in text and "secret" not in text
    assert [r["sample_id"] for r in rows] != sorted(r["sample_id"] for r in rows)
    assert all((tmp_path / "out" / r["picture"]).read_bytes().startswith(b"\x89PNG") for r in rows)
    assert len(exported(folder, tmp_path / "val", per_category=2, seed=3, split="val")) == 4


def test_filled_in_it_is_a_recording(folder, tmp_path):
    out = tmp_path / "out"
    rows = exported(folder, out, per_category=6, seed=3)
    for k, row in enumerate(rows):
        row["prediction"] = "" if k == 0 else "I don't know" if k % 2 else "red"
    with (out / "people_ours.tsv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    table = DatasetFolder("ours", folder, SplitRule(subset=(6, 3))).table
    model = recorded(ModelContext("people", folder=out), source="elsewhere", run="people")
    answers = {r["sample_id"]: r["text"] for r in model.lookup("ours", table).to_pylist()}
    assert {blind_id(name): text for name, text in answers.items()} == {r["sample_id"]: r["prediction"] for r in rows}, (
        "an empty answer is one, and wrong"
    )
    assert model.left_out == []
