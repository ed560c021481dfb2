"""The lines of `qualm run`, from what is told and said."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

from rich.console import Console

from qualm.compiler.run.follow import Follower, Tail, _Steps


def shown(folder: Path, events: list[dict], words: str = "", quiet: bool = False) -> str:
    (folder / "events").write_text("".join(json.dumps(e) + "\n" for e in events))
    (folder / "words").write_text(words)
    out = io.StringIO()
    with Follower(Console(file=out, width=100), folder / "events", folder / "words", 12, quiet) as follower:
        follower.update()
    return out.getvalue()


def of(stage: str, how: str) -> list[dict]:
    return [{"event": "begin", "stage": stage}, {"event": "end", "stage": stage, "how": how}]


def test_stages_that_did_something_have_a_line(tmp_path: Path) -> None:
    events = [*of("a", "unchanged"), *of("registry/data/m.dvc", "fetched"), *of("specs/other/dvc.yaml:b", "restored"), *of("c", "ran")]
    events.insert(-1, {"event": "done", "by": "c", "stage": "mine/c", "counts": "7 samples", "seconds": 1.0})
    lines = shown(tmp_path, events).splitlines()
    assert lines == ["registry/data/m: fetched (0.0 s)", "[ 2/12] other/b: restored (0.0 s)", "[ 3/12] c: 7 samples (0.0 s)"]


def test_what_fails_and_what_is_damaged_is_said(tmp_path: Path) -> None:
    events = [
        {"event": "begin", "stage": "a"},
        {"event": "damaged", "path": "results/m/x", "aside": ".qualm/damaged/x"},
        {"event": "failed", "stage": "a"},
        {"event": "error", "error": "no space [left]"},
    ]
    assert shown(tmp_path, events).splitlines() == [
        "results/m/x: damaged: its content is not the recorded one; moved to .qualm/damaged/x, to be restored or made again",
        "[ 1/12] a: failed (0.0 s)",
        "dvc: no space [left]",
    ]


def test_words_of_stages_come_through_without_control_characters(tmp_path: Path) -> None:
    assert shown(tmp_path, [], "\x1b]0;title\x07red [bold]\n\nhalf a line", quiet=True) == "]0;titlered [bold]\n"


def test_stages_side_by_side_have_their_own_counts_and_words(tmp_path: Path) -> None:
    words = tmp_path / "b.log"
    words.write_text("a warning\nb: another, with its name\n")
    events = [
        {"event": "begin", "stage": "a"},
        {"event": "output", "by": "b", "stage": "b", "path": str(words)},
        {"event": "begin", "stage": "b"},
        {"event": "progress", "by": "a", "label": "asking", "done": 1, "total": 2},
        {"event": "done", "by": "b", "stage": "mine/b", "counts": "2 answers", "seconds": 1.0},
        {"event": "done", "by": "a", "stage": "mine/a", "counts": "1 answer", "seconds": 1.0},
        {"event": "end", "by": "b", "stage": "b", "how": "ran"},
        {"event": "failed", "by": "a", "stage": "a"},
    ]
    assert shown(tmp_path, events).splitlines() == [
        "[ 2/12] b: a warning",
        "[ 2/12] b: another, with its name",
        "[ 2/12] b: 2 answers (0.0 s)",
        "[ 1/12] a: failed (0.0 s)",
    ]


def test_a_stage_that_had_to_wait_has_one_line(tmp_path: Path) -> None:
    events = [{"event": "begin", "stage": "a"}, *of("b", "ran"), *of("a", "ran"), {"event": "end", "stage": "a", "how": "ran"}]
    assert shown(tmp_path, events).splitlines() == ["[ 2/12] b: done (0.0 s)", "[ 1/12] a: done (0.0 s)"]


def test_steps_of_which_some_or_all_are_known() -> None:
    def told(completed: float, total: float | None, **fields: str) -> str:
        return _Steps().render(SimpleNamespace(completed=completed, total=total, fields=fields)).plain  # type: ignore[arg-type]

    assert told(1234, 20000, label="asking") == "asking 1,234/20,000" and told(0, 3, label="asking") == "asking 0/3"
    assert told(5, None) == "5" and told(0, None, label="asking") == "asking"


def test_a_line_is_read_once_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("one\ntw")
    tail = Tail(file)
    assert list(tail.lines()) == ["one\n"]
    with file.open("a") as more:
        more.write("o\n")
    assert list(tail.lines()) == ["two\n"] and list(tail.lines()) == []
