"""Stored parts -> GENERATIONS: every column from the part that fills it, in the rows it belongs to."""

from contextlib import chdir

import pytest
from qualm.runners.inference.tabulate import table

from qualm.registry.sample import GENERATIONS
from qualm.runners.contracts.models import Part
from qualm.runners.inference import tabulate
from qualm.runners.inference.keys import stored_keys
from qualm.runners.store.answers import LostError, Store
from tests.support.projects.asking import asker_of, picture, png, sample, write_samples
from tests.support.projects.tiny_project import BLUR, CLEAN

SIGNALS = ["logprobs_without_image", "logprobs_without_question", "logprobs_without_both", "image_divergence", "p_true", "p_true_sampling",
           "p_yes", "said_confidence"]  # fmt: skip
ALL = ["text", "token_logprobs", "token_entropies", "option_logits", "draws", *SIGNALS]


@pytest.fixture
def folders(tmp_path):
    samples = [sample("a", "red", "What is it?"), sample("b", None, "What is a cone?"), sample("c", None, "Which?", ["x", "y"])]
    with chdir(tmp_path):
        yield {
            "d": write_samples(tmp_path / "d", samples, {"red": png(picture(1))}),
            "e": write_samples(tmp_path / "e", [sample("z", None, "Why?")], {}),
        }


def value(number, part):
    """A part by the place of its cell: every number tells where it comes from."""
    at = float(number)
    return {
        "answer": Part(f"answer {number}", [1], [-at, -0.5], [at, 0.25]),
        "options": Part("A", [1], [-at], [at], [at, -at]),
        "draw 1": Part(f"first {number}", [2], [-at - 1], [at + 1]),
        "draw 2": Part(None, None, None, None),
        "without_image": Part(logprobs=[-at - 2]),
        "without_question": Part(logprobs=[-at - 3]),
        "without_both": Part(logprobs=[-at - 4]),
        "image_divergence": Part(logprobs=[at + 5]),
        "p_true": Part(numbers=[(at + 1) / 8]),
        "p_true_sampling": Part(numbers=[(at + 2) / 16]),
        "p_yes": Part(numbers=[]),
        "said_confidence": Part(f"{number} %", [3], [-9.0]),
    }[part]


def filled(folders, needs, variants=(CLEAN,), **params):
    """An asker with its cells, and a store that has all of it; answers first, for signals are about them."""
    asker = asker_of(folders, variants, needs, **params)
    cells, _ = asker.survey()
    store = Store(folders["d"].parent / "store", "m", "e")
    wanted = [(number, cell.place, part) for number, cell in enumerate(cells) for part in asker.parts(cell.options)]
    for signals in (False, True):
        some = [(n, place, part) for n, place, part in wanted if (part not in ("answer", "options") and "draw" not in part) is signals]
        if some:
            keys = stored_keys(asker, store, [(place, part) for _, place, part in some])
            store.put(keys, [part for *_, part in some], [value(n, part) for n, _, part in some])
    return asker, cells, store


def test_every_column_and_row(folders):
    asker, cells, store = filled(folders, ALL, draws=2)
    made = table(asker, 0, cells[:3], store)
    assert made.schema == GENERATIONS
    rows = made.to_pylist()
    assert [(r["sample_id"], r["variant"], r["draw"]) for r in rows] == [(n, "clean", d) for n in "ab" for d in range(3)] + [
        ("c", "clean", 0)
    ]
    assert [r["input_digest"] for r in rows] == [cells[i].input_digest for i in (0, 0, 0, 1, 1, 1, 2)]
    assert [r["text"] for r in rows] == ["answer 0", "first 0", None, "answer 1", "first 1", None, "A"]
    assert [r["token_logprobs"] for r in rows] == [[0.0, -0.5], [-1.0], None, [-1.0, -0.5], [-2.0], None, [-2.0]]
    assert [r["token_entropies"] for r in rows] == [[0.0, 0.25], [1.0], None, [1.0, 0.25], [2.0], None, [2.0]]
    assert [r["option_logits"] for r in rows] == [None] * 6 + [[2.0, -2.0]]
    nothing = dict.fromkeys(SIGNALS)
    greedy = [
        {
            "logprobs_without_image": [-2.0 - i], "logprobs_without_question": [-3.0 - i], "logprobs_without_both": [-4.0 - i],
            "image_divergence": [5.0 + i], "p_true": (i + 1) / 8, "p_true_sampling": (i + 2) / 16, "p_yes": None,
            "said_confidence": f"{i} %",
        }
        for i in (0, 1)
    ]  # fmt: skip
    expected = [greedy[0], nothing, nothing, greedy[1], nothing, nothing, nothing]
    assert [{name: r[name] for name in SIGNALS} for r in rows] == expected


def test_columns_that_nobody_needs_are_null_but_for_the_text(folders):
    asker, cells, store = filled(folders, ["p_true"])
    rows = table(asker, 0, cells[:3], store).to_pylist()
    assert [r["text"] for r in rows] == ["answer 0", "answer 1", "A"] and [r["p_true"] for r in rows] == [1 / 8, 2 / 8, None]
    assert all(
        r[name] is None for r in rows for name in ("token_logprobs", "token_entropies", "option_logits", *SIGNALS) if name != "p_true"
    )


def test_the_data_set_and_variant_of_a_cell(folders):
    asker, cells, store = filled(folders, ["text"], [BLUR, CLEAN])
    rows = table(asker, 0, [cell for cell in cells if cell.place.dataset == 0], store).to_pylist()
    assert [(r["sample_id"], r["variant"]) for r in rows] == [("a", "blur@radius=2.0"), ("a", "clean"), ("b", "clean"), ("c", "clean")]
    (row,) = table(asker, 1, cells[-1:], store).to_pylist()
    assert (row["sample_id"], row["text"], row["variant"]) == ("z", "answer 4", "clean")


@pytest.mark.parametrize("chunk", [1, 2, 3, 4])
def test_cells_are_taken_in_pieces_that_leave_no_trace(folders, monkeypatch, chunk):
    asker, cells, store = filled(folders, ALL, draws=2)
    whole = table(asker, 0, cells[:3], store)
    monkeypatch.setattr(tabulate, "_CHUNK", chunk)
    assert table(asker, 0, cells[:3], store).to_pylist() == whole.to_pylist()


def test_no_cells_make_an_empty_table(folders):
    asker, _, store = filled(folders, ["text"])
    assert table(asker, 0, [], store).schema == GENERATIONS and table(asker, 0, [], store).num_rows == 0


def test_a_part_that_is_not_stored_is_no_row_of_nulls(folders):
    asker, cells, _ = filled(folders, ["text"])
    with pytest.raises(LostError, match="3 of 3 answers are not stored"):
        table(asker, 0, cells[:3], Store(folders["d"].parent / "other", "m", "e"))
