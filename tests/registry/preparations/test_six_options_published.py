"""Held to what the authors released: every option of every question of MMBench and OODCV-VQA."""

import base64
import csv
import io
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from PIL import Image

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.mmbench import mmbench
from qualm.registry.adapters.vlm_uncertainty_bench import vlm_uncertainty_bench
from qualm.registry.formats.unpickle import read_pickle
from qualm.registry.formats.vub_layout import APPENDED
from qualm.registry.preparations import PreparationContext, PreparationError
from qualm.registry.preparations.six_options_published import COUNTS, six_options_published
from qualm.registry.sample import Sample

FIXTURES = Path(__file__).resolve().parents[4] / "shared/fixtures/vlm_uncertainty_bench/output/Qwen-VL-Chat"
released = pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"the authors' released outputs are not at {FIXTURES}")


def prepare(samples, of, **arguments):
    return list(six_options_published(PreparationContext("d", 0), samples, of=of, **arguments))


def texts(record):
    return [record[letter] if isinstance(record[letter], str) else None for letter in "ABCD"]


def before_filling(records):
    """The questions as they were: letters beyond the rotations of a question are options only if all its copies have them."""
    copies = defaultdict(list)
    for record in records:
        copies[record["index"] % 1_000_000].append(texts(record))
    for record in records:
        own = copies[record["index"] % 1_000_000]
        n = next((k for k in range(len(own), 4) if len({o[k] for o in own}) > 1 or own[0][k] is None), 4)
        yield Sample(
            str(record["index"]), record["question"], choices=tuple(texts(record)[:n]), answer_index="ABCD".index(record["answer"])
        )


@released
def test_mmbench_comes_out_as_released():
    records = read_pickle(FIXTURES / "mmbench.pkl")
    given = list(before_filling(records))
    made = prepare(given, "mmbench")
    assert len(made) == 4377
    for sample, record in zip(made, records, strict=True):
        there = texts(record)
        assert sample.answer_index == "ABCD".index(record["answer"])
        if None not in there:
            assert sample.choices == (*there, *APPENDED) and "missing_options" not in sample.meta
        else:
            listed = there[: there.index(None)]
            assert sample.choices == (*listed, *APPENDED, *[""] * (4 - len(listed)))
            assert sample.meta["missing_options"] == "".join(k for k, t in zip("ABCD", there, strict=True) if t is None)
    assert sum("missing_options" in s.meta for s in made) == 17
    whole = [s.choices[:4] for s in made if "missing_options" not in s.meta]
    assert sum(len(set(c)) < 4 for c in whole) == 16
    assert sum(s.choices[:4].count(s.choices[s.answer_index]) > 1 for s in made) == 8


@released
def test_oodcv_comes_out_as_released():
    """Their stream of draws, undone: a shuffle takes as many numbers whatever it shuffles, so the order before it can be found."""
    records = read_pickle(FIXTURES / "oodcv.pkl")
    stream = random.Random(42)
    given = []
    for record in records:
        stream.random(), stream.random()
        order = [0, 1, 2, 3]
        stream.shuffle(order)
        before = dict(zip(order, texts(record), strict=True))
        official = (before[0], before[1])
        given.append(Sample(str(record["id"]), "", choices=official, answer_index=official.index(record[record["answer"]])))
    made = prepare(given, "oodcv")
    assert [list(s.choices) for s in made] == [[*texts(r), *APPENDED] for r in records]
    assert ["ABCD"[s.answer_index] for s in made] == [r["answer"] for r in records]
    assert sum(len(set(s.choices)) < 6 for s in made) == 700


def test_scienceqa_fills_at_the_end_and_puts_the_truth_first():
    two = [Sample(f"q{n}", "?", choices=(f"{n} a", f"{n} b"), answer_index=n % 2) for n in range(30)]
    five = [Sample(f"f{n}", "?", choices=tuple(f"{n} {k}" for k in "abcde"), answer_index=3) for n in range(30)]
    made = prepare([*two, *five], "scienceqa")
    stream = random.Random(42)
    every = [s.choices for s in (*two, *five)]
    for before, after in zip(two, made, strict=False):
        fillers = [stream.choice(row) for row in stream.choices(every, k=2)]
        assert after.choices == (*before.choices, *fillers, *APPENDED) and after.answer_index == before.answer_index
    for before, after in zip(five, made[30:], strict=True):
        wrong = [c for c in before.choices if not c.endswith("d")]
        assert after.choices[:4] == (before.choices[3], *stream.choices(wrong, k=3)) and after.answer_index == 0
    assert any(len(set(s.choices)) < 6 for s in made[30:])
    (four,) = prepare([Sample("s", "?", choices=tuple("abcd"), answer_index=2)], "scienceqa")
    assert four.choices == (*"abcd", *APPENDED) and four.answer_index == 2, "nothing to fill and nothing too many"


def test_what_has_four_options_stays():
    whole = [Sample("s", "?", choices=("a", "b", "c", "d"), answer_index=2, group="picture")]
    for of in ("seedbench", "ai2d"):
        (made,) = prepare(whole, of)
        assert made.choices == (*whole[0].choices, *APPENDED) and made.answer_index == 2 and made.group == ""
    (kept,) = prepare(whole, "ai2d", rotations="together")
    assert kept.group == "picture"


def test_another_seed_draws_otherwise():
    samples = [Sample(f"{n}", "?", choices=COUNTS[n % 5 : n % 5 + 2], answer_index=0) for n in range(40)]
    assert Counter(s.answer_index for s in prepare(samples, "oodcv")).keys() == {0, 1, 2, 3}
    assert prepare(samples, "oodcv") != prepare(samples, "oodcv", seed=43)


@pytest.mark.parametrize(
    ("of", "choices", "says"),
    [
        ("oodcv", ("Two", "no"), "a question of oodcv has two numbers as words and a right one, got Two, no"),
        ("seedbench", ("a", "b"), "a question of seedbench has 4 options"),
        ("mmbench", tuple("abcde"), "a question of mmbench has 2 to 4 options"),
        ("scienceqa", (), "2 to 5 options and a right one, got none; `of:` says which"),
    ],
)
def test_other_data_sets_are_refused(of, choices, says):
    with pytest.raises(PreparationError, match=says):
        prepare([Sample("s", "?", choices=choices, answer_index=0 if choices else None)], of)


@pytest.mark.slow
@released
def test_official_files_prepared_are_what_the_recorded_outputs_hold(tmp_path):
    """MMBench's table as it must have been, read by its own adapter, beside the questions that the outputs' adapter reads."""
    records = read_pickle(FIXTURES / "mmbench.pkl")
    picture = io.BytesIO()
    Image.new("RGB", (2, 2)).save(picture, "PNG")
    columns = ["index", "question", "hint", *"ABCD", "answer", "category", "image", "l2-category", "split"]
    with (tmp_path / "mmbench_dev_20230712.tsv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, columns, restval="", extrasaction="ignore", delimiter="\t")
        writer.writeheader()
        for record, before in zip(records, before_filling(records), strict=True):
            options = {letter: "" for letter in "ABCD"} | dict(zip("ABCD", before.choices, strict=False))
            hint = record["hint"] if isinstance(record["hint"], str) else ""
            writer.writerow({**record, **options, "hint": hint, "image": base64.b64encode(picture.getvalue()).decode()})
    read = [x for x in mmbench(AdapterContext(tmp_path, source=tmp_path)) if isinstance(x, Sample)]
    outputs = FIXTURES.parent.parent
    recorded = [x for x in vlm_uncertainty_bench(AdapterContext(tmp_path, source=outputs), dataset="mmbench") if isinstance(x, Sample)]
    assert [(s.sample_id, s.question, s.group, s.category) for s in read] == [
        (s.sample_id, s.question, s.group, s.category) for s in recorded
    ]
    for ours, theirs in zip(prepare(read, "mmbench", rotations="together"), recorded, strict=True):
        assert ours.answer_index == theirs.answer_index and ours.meta.get("missing_options") == theirs.meta.get("missing_options")
        assert "missing_options" in theirs.meta or ours.choices == theirs.choices


def test_an_empty_cell_ends_the_options_and_empty_ones_keep_their_number_at_six():
    """Rows with an empty text among what is drawn from: wherever one is drawn, the two last move up."""
    rows = [Sample(f"q{n}", "?", choices=(f"{n} a", f"{n} b"), answer_index=0) for n in range(40)]
    made = prepare(rows, "mmbench")
    assert {len(sample.choices) for sample in made} == {6}
    for before, after in zip(rows, made, strict=True):
        missing = after.meta.get("missing_options", "")
        assert after.choices[:2] == before.choices and after.choices.count("") == (
            6 - after.choices.index("") if "" in after.choices else 0
        )
        assert bool(missing) == ("" in after.choices) and set(APPENDED) <= set(after.choices)
    assert any("missing_options" in sample.meta for sample in made) and any("missing_options" not in sample.meta for sample in made)
