"""Whatever stands in a row, reading it gives a record or a fault: nothing is raised, and what is given fits a table."""

import json
import math
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.parts import RecordingFile
from qualm.registry.recordings.record import ReadOptions, Record, RecordingError
from qualm.registry.recordings.signals import COLUMNS
from qualm.registry.sample import GENERATIONS
from tests.support.data.hostile import changed, places
from tests.support.data.recordings import (
    eee_line,
    helm_instance,
    helm_option,
    helm_state,
    inspect_header,
    inspect_sample,
    leh_choice,
    leh_open,
    lighteval_row,
    lmms_row,
    opencompass_entry,
    vek_row,
)

KEPT = {"qualm": {"signals": [{"token_logprobs": [-1.0], "p_true": 0.5, "text": "a", "input_digest": "x"}]}}
PICTURE = "data:image/png;base64,AAAA"
PETS = helm_instance("i", "Which?", [("x", True), ("y", False)])
PPL = {"testing input": "?", "prompt": "?", "PPL": 1.5}
ROWS = {
    "lm-eval": [leh_open(0, "?", "a", "a"), {**leh_open(0, "?", "a", "a"), **KEPT}, leh_choice(1, "?", ["x", "y"], 1, [-1, -2])],
    "lmms-eval": [lmms_row(0, "?", "a", "a", **KEPT), lmms_row(1, "?", "1", [["2.5", "False"], ["0.5", "True"]])],
    "vlmevalkit": [vek_row(0, "B"), vek_row(1, "A", qualm=json.dumps(KEPT["qualm"]["signals"][0]), hint="h")],
    "seedbench": [{"question_id": "1", "prediction": "A", "gt_answer": "B"}],
    "inspect": [
        inspect_sample("a", "?", "x", "x", logprobs=[-1.0], image=PICTURE),
        inspect_sample("b", "?", "B", "B", choices=["x", "y"]),
    ],
    "lighteval": [
        lighteval_row("a", "?", ["x"], 0, ["x y"], [-1.0, -2.0], images=[b"x"], level=1),
        lighteval_row("b", "?", ["x", "y"], 1, (), [-1.0, -2.0]),
    ],
    "helm": [
        helm_state(PETS, "x y", logprobs=[-1.0, -2.0]),
        helm_state(PETS, "A", mapping={"A": "x", "B": "y"}),
        helm_option(PETS, 0, [(" x", -1.0)]),
    ],
    "opencompass": [
        opencompass_entry("?", ["a", "b"], "a"),
        {"label: A": PPL, "label: B": PPL, "prediction": "A", "gold": "B"},
        {"testing input": "?", "prompt": "?", "choices": ["x", "y"], "prediction": [0.5, 0.5], "gold": 1},
    ],
    "every-eval-ever": [
        eee_line("a", "?", "x", "x", "y", metadata={"category": "c", "qualm": '[{"p_true": 0.5}, {}]', "image_id": "p"}),
        eee_line("b", "?", "B", "B", choices=["x", "y"], metadata={"lm_eval_metrics": "{}"}, error=None),
    ],
}
ODD = [
    *(None, True, False, 0, 1, 2, -1, 2**15, 2**31, 2**63, 10**400, 0.5, -0.0, 5e-324, 1e308, math.nan, math.inf, -math.inf),
    *("", "a", "é😀", "\0", "\ud800", "\n\t", "nan", "inf", "1e999", "[" * 50, "['a'"),
    *([], {}, [[]], [None], [1, 2], ["a", ["b"]], {"a": 1}),
]
TRIES = 150
"""Of each format."""


def write(path, form, row):
    """Write a log of one row; return False where no writer could write it."""
    if form == "lighteval":
        try:
            pq.write_table(pa.Table.from_pylist([row]), path)
        except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError):
            return False
        return True
    if form == "inspect":
        text = json.dumps({**inspect_header(), "samples": [row]})
    elif form == "helm":
        second = helm_option(PETS, 1, [(" y", -2.0)])
        text = json.dumps({"adapter_spec": {"model": "m"}, "request_states": [row, second]})
    elif form == "opencompass":
        text = json.dumps({"0": row})
    else:
        text = json.dumps([row] if form == "vlmevalkit" else row) + "\n"
    path.write_text(text, encoding="utf-8")
    return True


def read(path, form):
    try:
        yield from RecordingFile(path, form, frozenset()).read(ReadOptions())
    except RecordingError as error:
        assert form == "lighteval" and "doc and model_response" in str(error)  # another column is no file of the format


@pytest.mark.parametrize("form", ROWS)
def test_any_row(tmp_path, form):
    lines = ("lm-eval", "lmms-eval", "seedbench", "every-eval-ever")
    path = tmp_path / f"hostile.{'jsonl' if form in lines else {'lighteval': 'parquet'}.get(form, 'json')}"
    mutants = [(row, at, odd) for row in ROWS[form] for at in places(row) for odd in ODD]
    found = []
    for row, at, odd in random.Random(form).sample(mutants, min(TRIES, len(mutants))):
        if write(path, form, changed(row, at, odd)):
            found += read(path, form)
    assert {type(item) for item in found} == {Record, Fault}
    for item in found:
        assert isinstance(item, Record | Fault)
        if isinstance(item, Record):
            rows = [{"sample_id": item.id, "draw": item.draw + i, **{c: d[c] for c in COLUMNS if c in d}} for i, d in enumerate(item.draws)]
            assert pa.Table.from_pylist(rows, schema=GENERATIONS).num_rows == len(item.draws)
            assert item.answer_index is None or 0 <= item.answer_index < len(item.choices)


def test_half_a_character_spoils_its_own_sample_alone(tmp_path):
    good, bad = ROWS["inspect"][0], {**ROWS["inspect"][0], "id": "bad", "input": "\ud800"}
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**inspect_header(), "samples": [good, bad, {**good, "id": "c"}]}))
    first, fault, last = RecordingFile(path, "inspect", frozenset()).read(ReadOptions())
    assert isinstance(fault, Fault) and fault.reason == "text that is not Unicode" and "samples[1]" in fault.where
    assert isinstance(first, Record) and isinstance(last, Record) and last.id == "c"
