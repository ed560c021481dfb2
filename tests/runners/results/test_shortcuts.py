"""Shortcuts: planted ones at their true accuracy, none where there is none, undefined with its reason."""

import hashlib
import io
from functools import partial

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.results import shortcuts
from qualm.runners.runtime.records import write_table

K, E = "epistemic/knowledge", "epistemic/extraneous"


def row(i: int, answerable: bool, question: str, split: str = "test", category: str = K, image: str | None = None, group: str = "") -> dict:
    return {
        "sample_id": f"s{i}", "image_id": image, "question": question, "choices": [], "references": ["x"], "answer_index": None,
        "category": category, "answerable": answerable, "split": split, "source": "", "group": group, "meta": [], "pair_id": None,
    }  # fmt: skip


def made(rows: list[dict]) -> Samples:
    return Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))


def no_pictures(rows):
    raise AssertionError("there are none")


def measured(samples: Samples, features=no_pictures) -> dict[tuple[str, str], dict]:
    return {(r["category"], r["sees"]): r for r in shortcuts.shortcuts(samples, features)}


def planted(n: int, split: str, cue: float, start: int = 0, category: str = K) -> list[dict]:
    """Pairs of questions; a share `cue` of the unanswerable ones holds a word that no answerable one does."""
    rng = np.random.default_rng(start)
    rows = []
    for i in range(n):
        thing = f"thing {rng.integers(20)}"
        word = " tomorrow" if i < cue * n else ""
        rows.append(row(start + 2 * i, True, f"What colour is {thing}?", split, category, group=f"g{start + i}"))
        rows.append(row(start + 2 * i + 1, False, f"What colour is {thing}{word}?", split, category, group=f"g{start + i}"))
    return rows


@pytest.mark.parametrize("cue", [0.4, 0.8, 1.0])
def test_a_planted_word_is_found_at_its_true_accuracy(cue):
    # where the word stands, nothing else is unanswerable; without it the rows left are answerable more often than not
    samples = made([*planted(400, "train", cue), *planted(300, "test", cue, 1000)])
    found = measured(samples)["all", "question"]
    assert found["balanced_accuracy"] == pytest.approx((1 + cue) / 2, abs=1e-9)
    assert found["balanced_low"] <= (1 + cue) / 2 <= found["balanced_high"] and found["above_limit"] is True
    assert found["repeated"] == 1.0 and found["n"] == 600 and found["n_learnt"] == 800


def test_without_a_shortcut_there_is_chance_within_the_interval():
    rng = np.random.default_rng(0)

    def rows(n, split, start):
        return [row(start + i, bool(rng.integers(2)), f"What of {rng.integers(50)} and {rng.integers(50)}?", split) for i in range(n)]

    found = measured(made([*rows(1500, "train", 0), *rows(1000, "test", 5000)]))["all", "question"]
    assert found["balanced_accuracy"] == pytest.approx(0.5, abs=0.05)
    assert found["balanced_low"] < 0.5 < found["balanced_high"] and found["above_limit"] is False
    assert 0 < found["repeated"] < 1


def test_without_a_train_split_groups_are_told_of_in_turn():
    found = measured(made(planted(100, "test", 0.6)))
    assert found["all", "question"]["in_turn"] is True and found["all", "question"]["repeated"] is None
    assert found["all", "question"]["balanced_accuracy"] == pytest.approx(0.8, abs=1e-9)
    assert found["all", "nothing"]["accuracy"] == 0.5


def test_the_same_question_on_both_sides_is_exactly_chance_in_turn():
    found = measured(made(planted(100, "", 0.0)))["all", "question"]
    assert found["balanced_accuracy"] == 0.5 and found["balanced_low"] < 0.5 < found["balanced_high"]


def test_a_category_s_own_cue_is_found_though_it_means_the_opposite_elsewhere():
    flipped = [{**r, "answerable": not r["answerable"]} for r in planted(200, "train", 1.0, 3000, E)]
    flipped += [{**r, "answerable": not r["answerable"]} for r in planted(100, "test", 1.0, 5000, E)]
    found = measured(made([*planted(200, "train", 1.0), *planted(100, "test", 1.0, 1000), *flipped]))
    assert [found[c, "question"]["balanced_accuracy"] for c in (K, E)] == [1.0, 1.0]
    assert found["all", "question"]["balanced_accuracy"] < 0.6, "over both the word says nothing"


def patched(rows, samples: Samples, cue: float):
    """Features of pictures: noise, and a patch that shows the truth of a share `cue` of them."""
    truth = samples.answerable[rows]
    rng = np.random.default_rng(1)
    told = rng.random(len(rows)) < cue
    return np.column_stack([np.where(told, truth, 0.5), rng.random((len(rows), 3))])


@pytest.mark.parametrize("cue", [0.0, 1.0])
def test_a_planted_picture_shortcut_is_found_and_none_where_there_is_none(cue):
    rows = [
        row(i, bool(i % 2), "What colour is it?", "train" if i < 600 else "test", image=f"p{i}", group=f"g{i // 2}") for i in range(1000)
    ]
    samples = made(rows)
    found = measured(samples, partial(patched, samples=samples, cue=cue))["all", "picture"]
    assert found["balanced_accuracy"] == pytest.approx(0.5 + cue / 2, abs=0.08)
    assert found["above_limit"] is (cue == 1.0)
    assert found["balanced_low"] < 0.5 + cue / 2 + 1e-9 and found["balanced_high"] > 0.5


def test_intervals_are_over_whole_groups():
    """Ten copies of every row in its group leave the interval as it is."""
    rows = [*planted(300, "train", 0.5), *planted(60, "test", 0.5, 1000)]
    more = [{**r, "sample_id": f"{r['sample_id']}-{k}"} for r in rows for k in range(10 if r["split"] == "test" else 1)]
    one, ten = (measured(made(r))["all", "question"] for r in (rows, more))
    assert ten["n"] == 10 * one["n"]
    assert [ten[k] for k in ("balanced_low", "balanced_high")] == pytest.approx([one[k] for k in ("balanced_low", "balanced_high")])


def test_undefined_says_why():
    only = measured(made([*planted(50, "train", 1.0), *(row(9000 + i, False, "Where?", "test", group=f"h{i}") for i in range(20))]))
    question = only["all", "question"]
    assert question["balanced_accuracy"] is None and question["above_limit"] is None
    assert question["why"] == "one class only: all 20 rows to tell of are unanswerable" and question["accuracy"] is not None
    assert (question["accuracy"], question["balanced_low"], question["balanced_high"]) == (0.0, None, None), "new words are answered"
    other = measured(made([*planted(50, "train", 1.0), *(row(9000 + i, True, "Where?", group=f"h{i}") for i in range(20))]))
    assert other["all", "question"]["why"] == "one class only: all 20 rows to tell of are answerable"
    untold = measured(made([*planted(50, "train", 1.0), *planted(20, "test", 1.0, 1000), *planted(20, "train", 1.0, 3000, E)]))
    assert untold[E, "question"]["why"] == "no rows to tell of" and untold[E, "question"]["repeated"] is None
    few = measured(made([*planted(3, "train", 1.0), *planted(20, "test", 1.0, 1000)]))
    assert few["all", "question"]["why"] == "too few: 3 rows of the rarer class to learn from, expected 10"
    assert few["all", "picture"]["why"] == "no rows with an image to learn from"
    assert few["all", "nothing"]["accuracy"] == 0.5
    rare = measured(made([*planted(50, "train", 1.0), *planted(2, "test", 1.0, 1000)]))["all", "question"]
    assert rare["balanced_accuracy"] == 1.0 and rare["balanced_low"] is None and rare["above_limit"] is None, (
        "an interval needs five groups"
    )


def test_where_nothing_varies_the_class_with_fewer_groups_says_how_sure_that_is():
    """All right, with six groups of the rarer class: Wilson's interval of six."""
    rows = planted(50, "train", 1.0)
    rows += [row(5000 + i, True, "What colour is thing 1?", group=f"a{i}") for i in range(60)]
    rows += [row(6000 + i, False, "What colour is thing 1 tomorrow?", group=f"u{i}") for i in range(6)]
    found = measured(made(rows))["all", "question"]
    q = stats.t.ppf(0.975, 6 - 1)
    assert (found["balanced_accuracy"], found["balanced_high"]) == (1, 1) and found["balanced_low"] == pytest.approx(1 / (1 + q * q / 6))


def test_a_question_is_read_with_its_options():
    rows = [row(0, True, "What?") | {"choices": ["a", "b"]}, row(1, True, "Where?")]
    assert shortcuts.questions_of(made(rows)) == ["What?\na\nb", "Where?"]


def test_a_category_of_three_pairs_is_called_too_few_to_tell():
    large = [*planted(100, "train", 0.0), *planted(400, "test", 0.0, 1000)]
    small = [*planted(12, "train", 1.0, 5000, E), *planted(3, "test", 1.0, 6000, E)]
    tiny = [*planted(3, "train", 1.0, 7000, "epistemic/temporal"), *planted(3, "test", 1.0, 8000, "epistemic/temporal")]
    rows = list(shortcuts.shortcuts(made([*large, *small, *tiny]), no_pictures))
    table = {line[0]: line for line in shortcuts.format_cells(rows)}
    assert table[E][4] == "1.000 (no interval) ?", "three pairs, all told: no star, and no silence"
    assert table["epistemic/temporal"][4].startswith("undefined: too few: 3 rows")
    assert table[K][4].startswith("0.500 (0.4") and not table[K][4].endswith(("?", "*"))
    assert not [line for line in shortcuts.describe_shortcuts(rows) if E in line]
    assert shortcuts.describe_undecided(rows) == [
        f"category '{name}': too few questions to test whether the question alone reveals which are answerable"
        for name in (E, "epistemic/temporal")
    ]
    some = made([*planted(100, "train", 0.1), *planted(12, "test", 0.1, 1000)])
    [wide] = shortcuts.format_cells(shortcuts.with_design(shortcuts.shortcuts(some, no_pictures), some))
    assert wide[4].startswith("0.583 (") and wide[4].endswith(" ?"), "an interval across the limit proves no absence"


def test_a_design_that_lets_nothing_be_told_needs_no_sample_to_show_it():
    """Each question stands on both sides as often: whoever sees nothing else is right for exactly one half, of three pairs as of 300."""
    samples = made([*planted(100, "train", 0.0), *planted(3, "test", 0.0, 1000)])
    samples = made([*samples.table.to_pylist(), *planted(12, "train", 1.0, 3000, E), *planted(3, "test", 1.0, 2000, E)])
    rows = shortcuts.with_design(shortcuts.shortcuts(samples, no_pictures), samples)
    even = {(r["category"], r["sees"]) for r in rows if r["even"]}
    assert even == {(K, "question")}
    table = {line[0]: line for line in shortcuts.format_cells(rows)}
    assert table[K][4] == "0.500 =" and table["all"][4].endswith(" ?")
    few = [line.partition(":")[0] for line in shortcuts.describe_undecided(rows)]
    assert few == ["category 'epistemic/extraneous'", "all categories together"]
    pictures = made([row(i, bool(i % 2), f"What {i}?", image=f"p{i // 4}", group=f"g{i // 4}") for i in range(40)])
    found = shortcuts.with_design(shortcuts.shortcuts(pictures, lambda rows: np.zeros((len(rows), 1))), pictures)
    assert {r["sees"] for r in found if r["even"]} == {"picture"}


def test_odd_names_of_categories_are_told_from_what_is_ours():
    names = ("all", "", "\x1b[31mred\n| <b>")
    rows = [r for k, c in enumerate(names) for r in planted(30, "", 1.0 if c == "all" else 0.0, 1000 * k, c)]
    found = list(shortcuts.shortcuts(made(rows), no_pictures))
    table = {line[0]: line for line in shortcuts.format_cells(found)}
    assert list(table) == ["(none)", "\x1b[31mred\n| <b>", "“all”", "all"]
    assert (table["“all”"][1], table["all"][1]) == ("60", "180") and table["“all”"][4].startswith("1.000 (0.8")
    [line, _] = [*shortcuts.describe_shortcuts(found), ""][:2]
    assert line.startswith("category '“all”': ")
    lines = shortcuts.describe_undecided(found)
    assert lines[0].startswith("questions without a category: ") and "\x1b" not in "".join(lines)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from(["", "test", "train", "val"])), min_size=1, max_size=60))
def test_any_set_has_rows_that_hold_together(items):
    samples = made([row(i, a, f"{word}?", split, group=f"g{i // 2}") for i, (a, word, split) in enumerate(items)])
    for found in measured(samples).values():
        assert (found["balanced_accuracy"] is None) == bool(found["why"])
        if found["balanced_low"] is not None:
            assert 0 <= found["balanced_low"] <= found["balanced_accuracy"] <= found["balanced_high"] <= 1
            assert found["above_limit"] == (found["balanced_low"] > shortcuts.LIMIT)


def written(folder, rows, images):
    write_table(folder / "samples.parquet", rows, SAMPLES)
    write_table(folder / "images" / "0.parquet", [{"image_id": k, "image": {"bytes": v, "path": k}} for k, v in images.items()], IMAGES)
    return folder


def png(level: int, seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    pixels[8:16, 8:16] = level
    out = io.BytesIO()
    PIL.Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@pytest.mark.slow
def test_pictures_are_read_from_the_folder_and_broken_ones_are_as_good_as_none(tmp_path):
    rows = [row(i, bool(i % 2), "What colour?", "train" if i < 160 else "test", image=f"p{i}", group=f"g{i}") for i in range(240)]
    images = {f"p{i}": png(255 * (i % 2), i) for i in range(240)} | {"p239": b"no image"}
    found = {(r["category"], r["sees"]): r for r in shortcuts.measure_shortcuts("d", written(tmp_path, rows, images))}
    assert found["all", "picture"]["balanced_accuracy"] > 0.95 and found["all", "picture"]["n"] == 79
    assert found["all", "question"]["balanced_accuracy"] == 0.5
    [line] = shortcuts.describe_shortcuts(found.values())
    assert line.startswith(
        "all categories together: a classifier of the image alone separates answerable from unanswerable questions with "
    )


@pytest.mark.parametrize(("answerable", "both"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_set_has_both_kinds_with_one_of_each(answerable, both):
    assert shortcuts.has_both_classes(made([row(i, i < answerable, "What?") for i in range(3)])) is both


def test_a_set_of_one_class_has_no_table(tmp_path):
    for answerable in (True, False):
        assert shortcuts.measure_shortcuts("d", written(tmp_path, [row(i, answerable, "What?") for i in range(30)], {})) == []


def test_only_so_many_pictures_are_looked_at(monkeypatch):
    monkeypatch.setattr(shortcuts, "MAX_PICTURES", 20)
    samples = made([row(i, bool(i % 2), "What?", "train" if i < 60 else "test", image=f"p{i}", group=f"g{i}") for i in range(120)])
    found = measured(samples, partial(patched, samples=samples, cue=1.0))["all", "picture"]
    assert (found["n_learnt"], found["n"]) == (20, 20)
    looked = shortcuts.sampled_image_features(samples, shortcuts.train_test_rows(samples), lambda rows: np.zeros((len(rows), 1)))
    first = [sorted(side, key=lambda i: hashlib.sha256(f"p{i}".encode()).digest())[:20] for side in (range(60), range(60, 120))]
    assert np.flatnonzero(~np.isnan(looked[:, 0])).tolist() == sorted([*first[0], *first[1]]), "drawn by their names, in every process"


def test_the_printed_table():
    found = list(shortcuts.shortcuts(made([*planted(50, "train", 1.0), *planted(50, "test", 1.0, 1000)]), no_pictures))
    [line] = shortcuts.format_cells(found)
    assert line[:4] == ["all", "100", "90.0%", "0.500"] and line[4].startswith("1.000 (0.9") and line[4].endswith(" *")
    assert line[5] == "undefined: no rows with an image to learn from"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.54, 0.56, "0.550 (0.540 to 0.560) ?"), (0.55, 0.56, "0.550 (0.550 to 0.560) ?"), (0.54, 0.55, "0.550 (0.540 to 0.550)"),
        (None, None, "0.550 (no interval) ?"),
    ],
)  # fmt: skip
def test_an_interval_that_reaches_across_the_limit_decides_nothing(low, high, text):
    row = {"category": "", "accuracy": 0.55, "balanced_accuracy": 0.55, "balanced_low": low, "balanced_high": high, "n": 1200, "why": None}
    row |= {"repeated": 0.125, "above_limit": None if low is None else False}
    rows = [row | {"sees": "nothing"}, row | {"sees": "question"}, row | {"sees": "picture", "n": 1000}]
    assert shortcuts.format_cells(rows) == [["(none)", "1,200", "12.5%", "0.550", text, f"{text}, n = 1,000"]]
    lines = ["questions without a category: too few questions to test whether the question or the image alone reveals which are answerable"]
    assert shortcuts.describe_undecided(rows) == (lines if text.endswith("?") else [])
