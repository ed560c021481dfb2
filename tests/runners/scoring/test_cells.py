"""What of a cell is known of an answer to another question than the one whose answer is on record."""

import numpy as np
import pyarrow as pa

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.cells import IN_WORDS, NO_REFERENCE, Cell, Setting

OF_THE_REFERENCE = ["correct", "answerable", "uncertain", "gt_is_idk", "says_uncertain", "rated_by_", "rated_by_vqa", "marked_by_pope/said"]
OF_THE_ANSWER = ["confidence", "pred_is_idk", "predicted", "n_options", "fold", "clean_correct"]


def test_what_depends_on_the_reference_is_unknown_and_nothing_else():
    samples = Samples("d", pa.Table.from_pylist([{"sample_id": "a", "question": "?"}, {"sample_id": "b", "question": "?"}], schema=SAMPLES))
    ones = np.ones(2)
    setting = Setting(ones, {"lac": {"covered": ones, "set_size": ones}})
    before = Cell("m", samples, "inv", dict.fromkeys([*OF_THE_REFERENCE, *OF_THE_ANSWER], ones), {"s": setting}, {"u": ones}, {"u": ones})
    after = before.without_reference()
    assert after.why_unscored == NO_REFERENCE and not before.why_unscored
    assert {name for name, values in after.columns.items() if np.isnan(values).all()} == set(OF_THE_REFERENCE)
    assert all((after.columns[name] == 1).all() for name in OF_THE_ANSWER)
    assert np.isnan(after.settings["s"].scores["lac"]["covered"]).all() and (after.settings["s"].scores["lac"]["set_size"] == 1).all()
    assert after.uncertainties is before.uncertainties and after.clean_uncertainties is before.clean_uncertainties
    assert all((values == 1).all() for values in before.columns.values())


def test_a_model_that_does_not_look_is_one_of_its_own_asked_of_the_clean_questions():
    samples = Samples("d", pa.Table.from_pylist([{"sample_id": "a", "question": "?"}], schema=SAMPLES))
    ones = np.ones(1)
    cell = Cell("m", samples, "swapped_picture", {"correct": ones}, {"s": Setting(ones)}, {"u": ones}).blind()
    assert (cell.model, cell.variant, cell.settings, cell.uncertainties) == ("m+swapped_picture", "clean", {}, {})
    assert cell.columns["correct"] is ones


def some(columns, **more):
    samples = Samples(
        "d",
        pa.Table.from_pylist(
            [
                {"sample_id": "a", "question": "?", "choices": ["x", "y"], "category": "c"},
                {"sample_id": "b", "question": "?", "choices": ["x", "y"]},
                {"sample_id": "c", "question": "?"},
            ],
            schema=SAMPLES,
        ),
    )
    return Cell(
        "m", samples, "blur", {name: np.array(values) for name, values in columns.items()}, **{"settings": {}, "uncertainties": {}, **more}
    )


def test_a_metric_can_be_asked_of_a_cell_that_knows_its_columns():
    u = {"u": np.ones(3)}
    plain, sets = some({"correct": [1.0, 1, 1]}), some({}, settings={"s": Setting(np.ones(3))})
    estimated, both, others = (some({}, uncertainties=u, clean_uncertainties=clean) for clean in ({}, u, {"v": np.ones(3)}))
    for cell, reads, known in (
        (plain, {"correct", "is_calibration"}, True), (plain, {"covered"}, False), (sets, {"covered", "set_size"}, True),
        (sets, {"correct"}, False), (plain, {"uncertainty"}, False), (estimated, {"uncertainty"}, True),
        (estimated, {"uncertainty_change"}, False), (both, {"uncertainty_change", "clean_uncertainty"}, True),
        (others, {"uncertainty_change"}, False), (plain, {"group_of_category"}, True), (plain, {"code_of_pair_id"}, False),
    ):  # fmt: skip
        assert cell.applies(frozenset(reads)) is known, reads


def test_answers_in_words_are_those_to_open_questions_and_of_options_those_that_have_no_numbers():
    assert some({}).in_words.tolist() == [False, False, True]
    assert some({IN_WORDS: [np.nan, 1.0, 0.0]}).in_words.tolist() == [False, True, True]


def test_inputs_are_changed_where_it_is_known_that_some_are_not():
    assert some({}).changed is None and some({"input_changed": [1.0, 1, np.nan]}).changed is None
    assert some({"input_changed": [1.0, 0, np.nan]}).changed.tolist() == [True, False, False]
