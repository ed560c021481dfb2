"""VLMEvalKit: its own loading code where it is to be had, the shape of its tables always, and the way back to the last bit."""

import base64
import csv
import os
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.adapters.vlmevalkit_tsv import vlmevalkit_tsv
from qualm.registry.sample import GENERATIONS, SAMPLES, Image, Sample
from qualm.runners.plugins.exports import ExportError
from qualm.runners.plugins.exports.vlmevalkit import vlmevalkit
from qualm.runners.runtime.records import read_table, write_table
from tests.support.data.recordings import png
from tests.support.projects.exported import OPTIONS, bits, context, generations, ran, read_back, same_bytes, write

__all__ = ["ran"]
COLUMNS = ["index", "sample_id", "question", "A", "B", "C", "D", "answer", "category", "split"]


def table(path):
    csv.field_size_limit(2**28)
    with path.open(newline="") as handle:
        return list(csv.DictReader(handle, delimiter="\t"))


@pytest.mark.parametrize("form", ["tsv", "json", "xlsx"])
def test_the_way_back_is_exact(ran, tmp_path, form):
    if form == "xlsx":
        pytest.importorskip("openpyxl", reason="Excel tables are written by openpyxl, an extra")
    made = context(ran, tmp_path)
    vlmevalkit(made, table=form)
    assert made.lost == {
        "sampled answers": 27,
        "other fields of samples (meta, group, pair_id)": 15,
        "answers to questions without an image, where others have one (`-O images=false` keeps them)": 1,
    }
    assert (tmp_path / "m" / f"m_d.{form}").is_file()
    wanted = generations(ran, draws=False)
    assert bits(read_back(tmp_path, ran, lacking=1)) == bits([wanted[0], *wanted[2:]])
    shutil.rmtree(tmp_path)
    vlmevalkit(context(ran, tmp_path), table=form, images=False)
    assert bits(read_back(tmp_path, ran)) == bits(wanted)


HOSTILE = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "- a cat", "\t=1", "\r=1", "'=1", "''-x", "-1.5", "+3e5", "'tis", "-", "plain"]


@pytest.mark.parametrize("form", ["tsv", "json", "xlsx"])
def test_no_cell_is_a_formula_and_the_way_back_is_exact(tmp_path, form):
    source = write(tmp_path / "ran", n_open=len(HOSTILE), n_choice=0, draws=1)
    rows = read_table(source / "generations.parquet", GENERATIONS).to_pylist()
    for row in rows:
        row["text"] = HOSTILE[int(row["sample_id"][3:6])] if row["draw"] == 0 else row["text"]
    write_table(source / "generations.parquet", rows, GENERATIONS)
    vlmevalkit(context(source, tmp_path / "out"), table=form, images=False)
    assert bits(read_back(tmp_path / "out", source)) == bits(generations(source, draws=False))
    if form == "tsv":
        cells = [cell for row in table(tmp_path / "out/m/m_d.tsv") for cell in row.values()]
        assert not [c for c in cells if c[:1] in ("=", "@", "\t", "\r") or (c[:1] in ("+", "-") and c not in ("-1.5", "+3e5"))]
    if form == "xlsx":
        sheet = pytest.importorskip("openpyxl").load_workbook(tmp_path / "out/m/m_d.xlsx").active
        assert {cell.data_type for row in sheet.iter_rows() for cell in row if isinstance(cell.value, str)} == {"s"}


def test_questions_that_begin_like_formulas_come_back(tmp_path):
    source = write(tmp_path / "ran", n_open=2, n_choice=0)
    samples = read_table(source / "data/samples.parquet", SAMPLES).to_pylist()
    samples[0]["question"] = "=1+1 is what?"
    write_table(source / "data/samples.parquet", samples, SAMPLES)
    vlmevalkit(context(source, tmp_path / "out"), table="tsv")
    assert table(tmp_path / "out/d.tsv")[0]["question"] == "'=1+1 is what?"
    out = AdapterContext(tmp_path, source=tmp_path / "out")
    read = [s for s in vlmevalkit_tsv(files={"test": "d.tsv"}, kind="open", context=out) if isinstance(s, Sample)]
    assert read[0].question == "=1+1 is what?"


def test_tables(ran, tmp_path):
    vlmevalkit(context(ran, tmp_path), table="tsv")
    asked, said = ({int(r["index"]): r for r in table(tmp_path / f)} for f in ("d.tsv", "m/m_d.tsv"))
    assert list(asked) == list(said) == [i for i in range(16) if i != 1]  # part 1 has no picture
    assert list(asked[0]) == [*COLUMNS, "image"] and list(said[0]) == [*COLUMNS, "prediction", "qualm"]
    assert base64.b64decode(asked[0]["image"]) == png((0, 9, 9), side=48)
    assert asked[4]["image"] == "0" and base64.b64decode(asked[5]["image"]) == png((40, 9, 9), side=48) and asked[9]["image"] == "5"
    assert [asked[12][c] for c in "ABCD"] == [o or " " for o in OPTIONS] and asked[12]["answer"] == "A"
    assert asked[3]["answer"] == "['a cube', \"cube's\"]" and asked[0]["A"] == ""
    wanted = generations(ran, draws=False)
    assert said[2]["prediction"] == "NA" and said[10]["prediction"] == "B"
    logits = wanted[11]["option_logits"]
    assert said[11]["prediction"] == "ABCD"[logits.index(max(logits))]


def test_a_benchmark_without_any_picture(tmp_path):
    source = write(tmp_path / "s", pictures=False)
    vlmevalkit(context(source, tmp_path / "out"), table="tsv")
    assert list(table(tmp_path / "out/d.tsv")[0]) == COLUMNS
    assert bits(read_back(tmp_path / "out", source)) == bits(generations(source, draws=False))


def test_the_questions_of_all_models(tmp_path):
    source = write(tmp_path / "s", draws=0)
    made = context(source, tmp_path / "out")
    rows = read_table(source / "generations.parquet", GENERATIONS)
    write_table(source / "fewer.parquet", rows.slice(0, 3), GENERATIONS)
    (part,) = made.parts
    made.parts = (replace(part, model="a", generations=source / "fewer.parquet"), part)
    vlmevalkit(made, table="tsv")
    assert len(table(tmp_path / "out/d.tsv")) == 15
    assert len(table(tmp_path / "out/a/a_d.tsv")) == 2 and len(table(tmp_path / "out/m/m_d.tsv")) == 15


def test_questions_and_pictures_come_back(ran, tmp_path):
    vlmevalkit(context(ran, tmp_path), table="tsv")
    made = list(recorded_samples(AdapterContext(tmp_path, source=tmp_path), task="d", options="choices"))
    images = {m.image_id: m.data for m in made if isinstance(m, Image)}
    samples = [m for m in made if not isinstance(m, Image)]
    assert [s.sample_id for s in samples] == [f"id/{i:03d} x" for i in range(16) if i != 1]
    by_id = {int(s.sample_id[3:6]): s for s in samples}
    assert images[by_id[4].image_id] == png((0, 9, 9), side=48) and by_id[4].image_id == by_id[0].image_id and len(images) == 4
    assert by_id[12].choices == ("a cat", "a dog", " ", 'none, of "these"') and by_id[12].answer_index == 0
    assert by_id[3].references == ("a cube", "cube's")


def test_without_pictures(ran, tmp_path):
    vlmevalkit(context(ran, tmp_path), table="tsv", images=False)
    assert not (tmp_path / "d.tsv").exists()


def test_what_excel_cannot_hold(ran, tmp_path):
    pytest.importorskip("openpyxl", reason="Excel tables are written by openpyxl, an extra")
    source = write(tmp_path / "s", n_open=1, n_choice=0, draws=0)
    (row,) = read_table(source / "generations.parquet", GENERATIONS).to_pylist()
    write_table(source / "generations.parquet", [{**row, "token_logprobs": [0.1] * 9000}], GENERATIONS)
    made = context(source, tmp_path / "a")
    vlmevalkit(made)
    assert made.lost["token signals too long for a cell of Excel (`-O table=tsv` keeps them)"] == 1
    write_table(source / "generations.parquet", [{**row, "text": "x" * 40_000}], GENERATIONS)
    with pytest.raises(ExportError, match="prediction of row 0 has 40,000 characters, Excel holds 32,767"):
        vlmevalkit(context(source, tmp_path / "b"))


def test_equal_inputs_equal_bytes(ran, tmp_path):
    same_bytes(vlmevalkit, ran, tmp_path, table="tsv")


def test_pandas_reads_them_as_vlmevalkit_does(ran, tmp_path):
    """Its `load` is `read_csv(f, sep="\\t")` and `read_excel(f)` (vlmeval/smp/file.py)."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("openpyxl", reason="Excel tables are written by openpyxl, an extra")
    vlmevalkit(context(ran, tmp_path / "x"))
    vlmevalkit(context(ran, tmp_path / "t"), table="tsv")
    excel, text = pandas.read_excel(tmp_path / "x/m/m_d.xlsx"), pandas.read_csv(tmp_path / "t/m/m_d.tsv", sep="\t")
    for frame in (excel, text):
        assert list(frame["index"]) == [i for i in range(16) if i != 1]
        assert frame["prediction"][0] == "a red cube" and frame["prediction"][2] == 'two\nlines\tand "quotes"'


def test_its_own_code_reads_them(ran, tmp_path, monkeypatch):
    """With VLMEVALKIT=PATH of a checkout: it is on no package index."""
    checkout = os.environ.get("VLMEVALKIT")
    if not checkout:
        pytest.skip("VLMEvalKit is on no package index; set VLMEVALKIT to a checkout of it")
    vlmevalkit(context(ran, tmp_path))
    for name in ("vlmeval", "vlmeval.dataset"):  # packages whose __init__ imports every model and dataset there is
        package = types.ModuleType(name)
        package.__path__ = [str(Path(checkout, *name.split(".")))]
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setenv("LMUData", str(tmp_path))
    from vlmeval.dataset.image_base import ImageBaseDataset
    from vlmeval.smp.file import _prediction_table, is_prediction_complete

    class Custom(ImageBaseDataset):
        def evaluate(self, eval_file, **judge):
            raise NotImplementedError

    data = Custom("d")
    assert list(data.data["index"]) == [i for i in range(16) if i != 1]  # it leaves out questions without a picture
    (path,) = data.dump_image(data.data.iloc[3])
    assert Path(path).read_bytes()[:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0")
    assert data.build_prompt(data.data.iloc[0])[-1] == {"type": "text", "value": "What is in part 0?"}
    said = _prediction_table(str(tmp_path / "m" / "m_d.xlsx"))
    assert said["prediction"][0] == "a red cube"
    assert is_prediction_complete(str(tmp_path / "m" / "m_d.xlsx"), list(data.data["index"]))
