"""Questions taken from somebody's log."""

from pathlib import Path

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.recordings.parts import find_parts
from qualm.registry.recordings.record import ReadOptions, Record
from qualm.registry.sample import Image
from tests.support.data.recordings import (
    b64,
    helm,
    helm_instance,
    helm_state,
    inspect_eval,
    inspect_sample,
    leh,
    leh_choice,
    leh_open,
    lighteval,
    lighteval_row,
    lmms,
    lmms_row,
    opencompass,
    opencompass_entry,
    png,
    tsv,
    vek_row,
)


def read(source, **args):
    made = list(recorded_samples(AdapterContext(source, source=source), **args))
    return [m for m in made if isinstance(m, Image)], [m for m in made if not isinstance(m, Image)]


def test_questions_with_options_and_without(tmp_path):
    leh(tmp_path, leh_open(0, "Capital of Peru?", "Lima", "Lima"), leh_choice(1, "Which?", ["x", "y"], 1, [-1, -2]))
    _, (open_one, choice) = read(tmp_path)
    assert (open_one.sample_id, open_one.question, open_one.references) == ("0", "Capital of Peru?", ("Lima",))
    assert open_one.source == "recorded_samples/capitals" and open_one.meta["subject"] == "geography"
    assert (choice.choices, choice.answer_index, choice.references) == (("x", "y"), 1, ())


def test_options_are_options_unless_they_are_to_be_references(tmp_path):
    tsv(tmp_path / "m_d.tsv", [vek_row(1, "B")])
    for options in ("auto", "choices"):
        _, (sample,) = read(tmp_path, task="d", options=options)
        assert (sample.question, sample.choices, sample.answer_index) == ("What is in picture 1?", ("a cat", "a dog"), 1)
    _, (sample,) = read(tmp_path, task="d", options="open")
    assert sample.question == "What is in picture 1?\nA. a cat\nB. a dog"
    assert (sample.choices, sample.references) == ((), ("a dog", "B"))


LETTERED = "What is it?\nA. a cat\nB. a dog\nAnswer with the letter."


@pytest.mark.parametrize(
    ("write", "row"),
    [
        (lmms, lmms_row(0, LETTERED, "B", "(B)")),
        (leh, leh_open(0, LETTERED, "B", "B")),
        (leh, leh_open(0, "What is it?", "a dog", "B", doc={"question": "What is it?", "choices": {"text": ["a cat", "a dog"]}})),
        (leh, leh_open(0, "What is it?", "B", "B", doc={"question": "What is it?", "options": "['a cat', 'a dog']"})),
        (inspect_eval, inspect_sample("0", LETTERED, "B", "B")),
        (inspect_eval, inspect_sample("0", "What is it?", "B", "B", choices=["a cat", "a dog"])),
    ],
)
def test_options_that_the_log_has_in_a_document_or_a_prompt(tmp_path, write, row):
    write(tmp_path / "x.eval" if write is inspect_eval else tmp_path, row)
    _, (sample,) = read(tmp_path)
    assert (sample.choices, sample.answer_index, sample.references) == (("a cat", "a dog"), 1, ())
    assert sample.question in ("What is it?", LETTERED)


@pytest.mark.parametrize("target", ["red", "C", "['A', 'B']", "1"])
def test_a_prompt_of_letters_and_another_target_is_an_open_question(tmp_path, target):
    lmms(tmp_path, lmms_row(0, LETTERED, target, "B"))
    _, (sample,) = read(tmp_path)
    assert sample.choices == () and sample.references


def test_the_task_is_known_by_the_only_input_table(tmp_path):
    """Two models' predictions and one table: its name is the task's."""
    for model in ("m_1", "m_2"):
        tsv(tmp_path / model / f"{model}_d_e.tsv", [vek_row(1, "B")])
    tsv(tmp_path / "d_e.tsv", [{**vek_row(1), "image": b64(png(side=64))}])
    (image,), (sample,) = read(tmp_path)
    assert sample.image_id == image.image_id == "1" and sample.source == "recorded_samples/d_e"
    with pytest.raises(AdapterError, match="no task 'x'"):
        read(tmp_path, task="x")


def test_a_table_of_another_task_is_an_error_and_none_at_all_a_note(tmp_path):
    tsv(tmp_path / "m_d.tsv", [vek_row(1, "B"), {**vek_row(2, "B"), "answer": "H"}])
    notes = []
    found = list(recorded_samples(AdapterContext(tmp_path, source=tmp_path, note=notes.append)))
    assert len(found) == 2
    assert [n.partition(": ")[2].partition(";")[0] for n in notes] == [
        "2 of 2 questions have no image",
        "1 of 2 questions have options of which none is known to be right, so that they cannot be scored",
    ]
    tsv(tmp_path / "other.tsv", [{**vek_row(1), "image": b64(png(side=64))}])
    with pytest.raises(AdapterError, match=r"m_d\.tsv: the tables with images beside it are of other tasks: other; say which by `task:`"):
        read(tmp_path)
    assert len(read(tmp_path, pictures="none")[1]) == 2


def noted(source, **args):
    """What is noted of a source, from the first words on."""
    notes = []
    made = list(recorded_samples(AdapterContext(source, source=source, note=notes.append), **args))
    return made, [note.partition(": ")[2].partition(" questions ")[::2] for note in notes]


def test_what_stands_in_the_way_of_scoring_or_seeing_is_noted(tmp_path):
    leh(
        tmp_path / "a",
        leh_open(0, "?", "a", "x"),
        {**leh_open(1, "?", "a", "x"), "target": None},
        {**leh_open(2, "?", "a", "x"), "target": []},
    )
    _, notes = noted(tmp_path / "a")
    said = "have neither options nor a reference answer, so that they cannot be scored; `fields: {target: NAME}` names the field"
    assert notes == [("2 of 3", said)]
    url = f"data:image/png;base64,{b64(png())}"
    inspect_eval(tmp_path / "b" / "x.eval", inspect_sample("a", "What?", "x", "x", image=url), inspect_sample("b", "What?", "x", "x"))
    made, notes = noted(tmp_path / "b", pictures="none")
    assert len(made) == 2 and notes == [("1 of 2", "were asked about images, which are left out here")]
    assert noted(tmp_path / "b")[1] == []


def test_a_picture_that_cannot_be_kept_is_a_fault_of_its_row(tmp_path, capsys):
    rows = [{**vek_row(1), "image": "!" * 70}, {**vek_row(2), "image": "9"}, {**vek_row(3), "image": b64(png(side=64))}]
    tsv(tmp_path / "d.tsv", rows)
    (image,), samples = read(tmp_path, task="d", faults="leave_out")
    assert image.image_id == "3" and [sample.image_id for sample in samples] == [None, None, "3"]
    told = capsys.readouterr().err.splitlines()
    assert told[0].endswith("left out 2 rows (2 x no usable image)")
    assert told[1].startswith("  d.tsv:2: no usable image: image: not base64")
    assert told[2] == "  d.tsv: no usable image: row 2 points to row 9, which has none"


def test_the_only_table_that_a_prediction_is_of_says_the_task(tmp_path):
    for data in ("d", "e"):
        tsv(tmp_path / f"m_{data}.tsv", [vek_row(1, "B")])
    tsv(tmp_path / "d.tsv", [{**vek_row(1), "image": b64(png(side=64))}])
    _, (sample,) = read(tmp_path)
    assert sample.source == "recorded_samples/d"


def test_pictures_of_an_input_table_come_once(tmp_path):
    tsv(tmp_path / "m_d.tsv", [vek_row(1, "B")])
    rows = [{**vek_row(1), "image": "2"}, {**vek_row(2), "image": b64(png(side=64))}, {**vek_row(3), "image": ""}]
    tsv(tmp_path / "d.tsv", rows)
    (image,), (first, second, third) = read(tmp_path, task="d")
    assert image.image_id == "2" and image.data == png(side=64)
    assert (first.image_id, second.image_id, third.image_id) == ("2", "2", None)
    assert first.group == second.group == "2"


def test_a_picture_in_a_log(tmp_path):
    url = f"data:image/png;base64,{b64(png())}"
    inspect_eval(tmp_path / "x.eval", *(inspect_sample("a", "What?", "x", "x", epoch=e, image=url) for e in (1, 2)))
    (image,), (sample,) = read(tmp_path)
    assert sample.image_id == image.image_id == "a" and image.data == png()


def test_several_runs_of_a_task_have_the_same_questions(tmp_path):
    for run in ("b", "a"):
        leh(tmp_path, leh_open(0, f"by {run}", "x", "x"), run=run)
    assert read(tmp_path, task="capitals")[1][0].question == "by a"
    assert read(tmp_path, task="capitals", run="b")[1][0].question == "by b"


def test_faults_stop_or_are_left_out(tmp_path, capsys):
    rows = [leh_open(0, "?", "a", "a"), "{", leh_open(0, "?", "a", "b"), {**leh_choice(3, "?", ["x", "y"], 0, [-1, -2]), "target": "z"}]
    leh(tmp_path, *rows)
    with pytest.raises(
        AdapterError, match=r"(?s)3 rows that cannot be read \(.*:2: not JSON.*:3: an id that occurs twice.*faults: leave_out"
    ):
        read(tmp_path)
    assert len(read(tmp_path, faults="leave_out")[1]) == 1
    assert "left out 3 rows" in capsys.readouterr().err


def test_of_two_questions_with_one_id_neither_is_taken(tmp_path, capsys):
    leh(tmp_path, leh_open(0, "?", "a", "a"), leh_open(1, "Who?", "b", "b"), leh_open(0, "again", "a", "b"))
    assert [sample.sample_id for sample in read(tmp_path, faults="leave_out")[1]] == ["1"]
    assert "2 x an id that occurs twice, with other questions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"task": "rivers"}, "no task 'rivers'; there are: capitals, seas"),
        ({"run": "me"}, "no run 'me'; there are: 2026-03-01T10-11-12.345678, my__model"),
        ({}, "holds several tasks"),
        ({"format": "inspect"}, "no recording of inspect"),
    ],
)
def test_what_is_not_there(tmp_path, args, message):
    for task in ("capitals", "seas"):
        leh(tmp_path, leh_open(0, "?", "a", "a"), task=task)
    with pytest.raises(AdapterError, match=message):
        read(tmp_path, **args)


def test_two_formats_are_not_mixed(tmp_path):
    leh(tmp_path / "a", leh_open(0, "?", "a", "a"))
    lmms(tmp_path / "b", lmms_row(0, "?", "a", "a"))
    with pytest.raises(AdapterError, match="recordings of lm-eval and of lmms-eval; say which with `format:`"):
        read(tmp_path)
    assert len(read(tmp_path, format="lmms-eval")[1]) == 1


def test_predictions_without_questions(tmp_path):
    (tmp_path / "GPT-4V.json").write_text('{"question_id": "1", "prediction": "A", "gt_answer": "B"},')
    with pytest.raises(AdapterError, match=r"GPT-4V\.json: SEED-Bench's predictions have no questions"):
        read(tmp_path)


def test_nothing_at_all(tmp_path):
    with pytest.raises(AdapterError, match="no recording of lm-eval, lmms-eval, vlmevalkit, seedbench, inspect"):
        read(tmp_path)
    with pytest.raises(AdapterError, match="not on this disk"):
        read(tmp_path / "gone")


def test_questions_of_lighteval_come_with_their_pictures(tmp_path):
    lighteval(tmp_path, lighteval_row("7", LETTERED, ["A. a cat", "B. a dog"], 1, ["B"], images=[png()]))
    (image,), (sample,) = read(tmp_path)
    assert (image.data, sample.image_id, sample.choices, sample.answer_index) == (png(), "7", ("a cat", "a dog"), 1)
    assert sample.source == "recorded_samples/capitals|0"


def test_questions_of_helm_have_no_pictures(tmp_path):
    helm(tmp_path, helm_state(helm_instance("id1", "What is it?", [("a cat", True)], image="x.png"), "a cat"))
    with pytest.raises(AdapterError, match="no usable images: HELM keeps the paths of images"):
        read(tmp_path)
    _, (sample,) = read(tmp_path, pictures="none", format="helm")
    assert (sample.sample_id, sample.question, sample.references, sample.image_id) == ("id1", "What is it?", ("a cat",), None)


def test_questions_of_opencompass(tmp_path):
    opencompass(tmp_path, opencompass_entry(LETTERED, "B", "B"))
    _, (sample,) = read(tmp_path)
    assert (sample.sample_id, sample.question, sample.choices, sample.answer_index) == ("0", "What is it?", ("a cat", "a dog"), 1)


@pytest.mark.parametrize(
    "indices", [(0, 2, 3, 1_000_000, 2_000_003), ("0", "2", "3", "1000000", "2000003"), (0.0, 2.0, 3.0, 1e6, 2000003.0)]
)
def test_rotations_of_vlmevalkit_are_one_group_whatever_image_they_carry(tmp_path, indices):
    rows = [{**vek_row(i, "B"), "index": index, "image": b64(png(i))} for i, index in enumerate(indices)]
    tsv(tmp_path / "TOY.tsv", [{k: v for k, v in row.items() if k != "prediction"} for row in rows])
    tsv(tmp_path / "M1_TOY.tsv", [{k: v for k, v in row.items() if k != "image"} for row in rows])
    _, samples = read(tmp_path, task="TOY")
    assert [s.group for s in samples] == ["question 0", "question 2", "question 3", "question 0", "question 3"]


def test_large_indices_that_are_no_rotations_stay_groups_of_their_images(tmp_path):
    tsv(tmp_path / "m_d.tsv", [{**vek_row(1, "B"), "index": index} for index in (20_000_001, 20_000_002)])
    _, samples = read(tmp_path, task="d")
    assert {s.group for s in samples} == {""}


CASES = Path(__file__).parents[4] / "shared/fixtures/cases"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the fixtures are not beside the repository")


@needs_cases
def test_rotations_of_the_fixtures():
    pytest.importorskip("openpyxl")
    _, samples = read(CASES / "vlmevalkit-circular/run", task="TOY")
    assert len(samples) == 7
    assert len({s.group for s in samples}) == 6


@needs_cases
def test_an_option_at_minus_infinity_is_ruled_out_and_scored():
    """The log itself says 1, 0, 1, 0, 0 for the rows that are numbers."""
    (part,) = find_parts(CASES / "lm-eval-logs/infs")
    records = [r for r in part.read(ReadOptions()) if isinstance(r, Record)]
    chosen = [max(range(3), key=r.draws[0]["option_logits"].__getitem__) for r in records]
    assert [c == r.answer_index for c, r in zip(chosen, records, strict=True)] == [True, False, True, False, False]
    assert not any(r.impossible for r in records)


def test_options_beyond_the_letters_are_listed_with_their_numbers(tmp_path):
    leh(tmp_path, leh_choice(1, "Which?", [f"thing {i}" for i in range(30)], 27, [-1] * 30))
    _, (sample,) = read(tmp_path, options="open")
    assert sample.question.endswith("\nZ. thing 25\n27. thing 26\n28. thing 27\n29. thing 28\n30. thing 29")
    assert sample.references == ("thing 27", "28")
