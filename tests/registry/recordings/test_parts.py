import json
from dataclasses import replace
from pathlib import Path

import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.parts import RecordingFile, choose, find_parts, task_of
from qualm.registry.recordings.record import MAX_DRAWS, ReadOptions, Record, RecordingError
from tests.support.data.recordings import leh, leh_open


def part(path="m/t.jsonl", *names):
    return RecordingFile(Path("log") / path, "lm-eval", frozenset(names or {("m", "t")}))


def chosen(parts, run=None, task=None, **more):
    return choose(Path("log"), parts, run, task, **more)


ONE, OTHER, SECOND_RUN = part("a", ("r1", "t1")), part("b", ("r1", "t2")), part("c", ("r2", "t1"))


def test_the_one_file_that_is_meant():
    assert chosen([ONE, OTHER], task="t2") == replace(OTHER, task="t2") and chosen([ONE, SECOND_RUN], run="r2").path == SECOND_RUN.path
    assert chosen([ONE, OTHER], fallback="t1") == replace(ONE, task="t1") == chosen([ONE], fallback="none such") == chosen([ONE])
    assert chosen([ONE, SECOND_RUN], task="t1", first=True).path == ONE.path


@pytest.mark.parametrize(
    "parts, wanted, message",
    [
        ([ONE, OTHER], {"run": "r3"}, "no run 'r3'; there are: r1"),
        ([part("a", ("20", "t"), ("m", "t")), part("b", ("21", "u"), ("m", "u"), ("x/r3", "u"))], {"run": "r3"}, "are: x/r3, m, 20, 21"),
        ([ONE, OTHER], {"task": "t3"}, "no task 't3'; there are: t1, t2"),
        ([part("a", *((f"r{n:02}", "t") for n in range(12)))], {"run": "x"}, r"are: r00, [^a]*, r11$"),
        ([part("a", *((f"r{n:02}", "t") for n in range(13)))], {"run": "x"}, r"are: r00, .*, r11 and 1 more$"),
        (
            [part(f"f{n}", ("r", "t")) for n in range(9)],
            {},
            "task 't' lies there 9 times: f0, f1, f2, f3, f4, f5, f6, f7; say which with",
        ),
        ([ONE, OTHER], {"run": "r1", "task": "t3"}, "no task 't3' of run 'r1'; there are: t1, t2"),
        ([ONE, OTHER], {}, "holds several tasks: a, b; say which is meant"),
        ([ONE, SECOND_RUN], {"task": "t1"}, "task 't1' lies there 2 times: a, c; say which with `run:`"),
    ],
)
def test_what_cannot_be_told(parts, wanted, message):
    with pytest.raises(RecordingError, match=message):
        chosen(parts, **wanted)


def test_a_part_is_asked_for_by_any_pair_of_its_names():
    both = part("x", ("r", "t"), ("s", "longer"))
    assert both.has("r", "t") and both.has(None, "longer") and both.has("s", None) and both.has(None, None)
    assert not both.has("r", "longer") and task_of(both, None) == "longer" and task_of(both, "r") == "t"


def test_files_of_a_recording_are_found_and_hidden_ones_are_not(tmp_path):
    leh(tmp_path / "log", leh_open(0, "?", "a", "a"))
    (tmp_path / "log" / ".hidden").mkdir()
    (tmp_path / "log" / "notes.txt").write_text("x")
    (found,) = find_parts(tmp_path / "log")
    assert found.format == "lm-eval" and find_parts(found.path) == [found]
    (tmp_path / "log" / ".hidden" / found.path.name).write_bytes(found.path.read_bytes())
    (tmp_path / "log" / f"link{found.path.name}").symlink_to(found.path)
    assert find_parts(tmp_path / "log") == [found]
    with pytest.raises(RecordingError, match="no recording of inspect in it"):
        find_parts(tmp_path / "log", "inspect")
    with pytest.raises(RecordingError, match="no format 'x'; there are: lm-eval"):
        find_parts(tmp_path / "log", "x")
    with pytest.raises(RecordingError, match="not on this disk"):
        find_parts(tmp_path / "gone")


def test_two_formats_in_one_folder_must_be_distinguished(tmp_path):
    leh(tmp_path / "log", leh_open(0, "?", "a", "a"))
    (tmp_path / "log" / "m_seed.jsonl").write_text(json.dumps({"question_id": "1", "prediction": "A", "gt_answer": "B"}) + "\n")
    with pytest.raises(RecordingError, match="holds recordings of lm-eval and of seedbench; say which with `format:`"):
        find_parts(tmp_path / "log")
    assert [p.format for p in find_parts(tmp_path / "log", "seedbench")] == ["seedbench"]


@pytest.mark.parametrize(
    "record, reason",
    [
        (Record("w", "i", question="\ud800"), "text that is not Unicode"),
        (Record("w", "i", draws=[{}], draw=MAX_DRAWS), f"has room for', what='{MAX_DRAWS + 1}'"),
    ],
)
def test_rows_that_no_table_can_hold_are_faults(monkeypatch, record, reason):
    from qualm.registry.recordings import lm_eval

    good = Record("w", "i", draws=[{"text": "a", "p_yes": 7.0}], draw=MAX_DRAWS - 1)
    monkeypatch.setattr(lm_eval, "read", lambda path, how: iter([record, good]))
    fault, kept = part().read(ReadOptions())
    assert isinstance(fault, Fault) and reason in str(fault)
    assert kept.draws == [{"text": "a"}] and len(kept.impossible) == 1
