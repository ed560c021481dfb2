"""Stages at work at the same time under DVC itself: that they are, what their lock holds, how failures and Ctrl-C end them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import yaml

from qualm.compiler.running.side_by_side import ParallelStages, ReadyStages, cards_here
from tests.compiler.running.test_reproduce import LOCKED, STARTED, repro, told

MEET = "touch here-{me}; n=0; while [ ! -e here-{other} ]; do n=$((n+1)); [ $n -lt 400 ] || exit 7; sleep 0.05; done"
"""Ends well only if the other is at work at the same time."""


def stage(command: str, out: str, *deps: str) -> dict[str, Any]:
    return {"cmd": f"{command} && {STARTED}", "deps": [*deps], "outs": [out]}


def pipeline(root: Path, **stages: dict[str, Any]) -> Path:
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").write_text("[core]\n    analytics = false\n")
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))
    (root / "in.txt").write_text("in\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def diamond(first: str = "true", second: str = "true") -> dict[str, dict[str, Any]]:
    return {
        "left": stage(f"{first} && echo 1 > left.txt", "left.txt", "in.txt"),
        "right": stage(f"{second} && echo 2 > right.txt", "right.txt", "in.txt"),
        "both": stage("cat left.txt right.txt > both.txt", "both.txt", "left.txt", "right.txt"),
    }


def test_they_meet_and_the_lock_is_that_of_a_run_one_by_one(tmp_path: Path) -> None:
    slow = MEET.format(me="left", other="right") + "; sleep 0.3"  # the second ends first
    beside = pipeline(tmp_path / "beside", **diamond(slow, MEET.format(me="right", other="left")))
    alone = pipeline(tmp_path / "alone", **diamond(slow, MEET.format(me="right", other="left")))
    for name in ("here-left", "here-right"):
        (alone / name).touch()
    code, events = repro(beside, QUALM_JOBS="2")
    assert code == 0 and repro(alone)[0] == 0
    ends = [e["stage"] for e in events if e["event"] == "end"]
    assert ends == ["right", "left", "both"] and [e["how"] for e in events if e["event"] == "end"] == ["ran"] * 3
    lock = (beside / "dvc.lock").read_bytes()
    assert lock == (alone / "dvc.lock").read_bytes() and lock.index(b"left:") < lock.index(b"right:") < lock.index(b"both:")
    assert (beside / "both.txt").read_text() == "1\n2\n"
    status = subprocess.run(["dvc", "status"], cwd=beside, capture_output=True, text=True, check=True)
    assert "up to date" in status.stdout
    assert [how for _, _, *how in told(repro(beside, QUALM_JOBS="2")[1]) if how] == [["unchanged"]] * 3


def test_what_ran_beside_a_failure_is_kept_and_nothing_more_begins(tmp_path: Path) -> None:
    root = pipeline(tmp_path / "root", **diamond("sleep 0.2; false", "sleep 0.6"), third=stage("touch third.txt", "third.txt", "right.txt"))
    code, events = repro(root, QUALM_JOBS="2")
    assert code not in (0, 99, LOCKED)
    assert [(e["event"], e["stage"]) for e in events if e["event"] in ("failed", "end")] == [("failed", "left"), ("end", "right")]
    assert "failed to reproduce 'left'" in events[-1]["error"] and not (root / "third.txt").exists()
    (root / "dvc.yaml").write_text((root / "dvc.yaml").read_text().replace("sleep 0.2; false", "true"))
    code, events = repro(root, QUALM_JOBS="2")
    assert code == 0 and {e["stage"]: e["how"] for e in events if e["event"] == "end"} == {
        "left": "ran", "right": "unchanged", "both": "ran", "third": "ran",
    }  # fmt: skip


def test_keep_going_leaves_out_what_depends_on_a_failure(tmp_path: Path) -> None:
    root = pipeline(tmp_path / "root", **diamond("false"), third=stage("touch third.txt", "third.txt", "right.txt"))
    code, events = repro(root, "--keep-going", QUALM_JOBS="2")
    assert code not in (0, 99) and [e["stage"] for e in events if e["event"] == "failed"] == ["left"]
    assert {e["stage"] for e in events if e["event"] == "end"} == {"right", "third"} and not (root / "both.txt").exists()


def test_after_ctrl_c_nothing_more_begins_and_what_is_done_is_recorded(tmp_path: Path) -> None:
    root = pipeline(tmp_path / "root", **diamond("sleep 0.3; kill -INT $PPID; sleep 0.2", "sleep 0.7"))
    code, events = repro(root, QUALM_JOBS="2", SHELL="/bin/bash")
    assert code not in (0, 99) and {e["stage"] for e in events if e["event"] == "end"} == {"left", "right"}
    assert not (root / "both.txt").exists()
    code, events = repro(root, QUALM_JOBS="2", SHELL="/bin/bash")
    assert code == 0 and {e["stage"]: e["how"] for e in events if e["event"] == "end"} == {
        "left": "unchanged", "right": "unchanged", "both": "ran",
    }  # fmt: skip


def test_each_has_a_card_and_a_file_for_its_words(tmp_path: Path) -> None:
    def one(me: str, other: str) -> dict[str, Any]:
        return stage(f"{MEET.format(me=me, other=other)}; echo word of {me}; echo $CUDA_VISIBLE_DEVICES > {me}.txt", f"{me}.txt", "in.txt")

    root = pipeline(tmp_path / "root", a=one("a", "b"), b=one("b", "a"))
    code, events = repro(root, QUALM_JOBS="2", CUDA_VISIBLE_DEVICES="3,5")
    assert code == 0 and sorted((root / f"{name}.txt").read_text() for name in "ab") == ["3\n", "5\n"]
    words = {e["stage"]: Path(e["path"]).read_text() for e in events if e["event"] == "words"}
    assert words == {"a": "word of a\n", "b": "word of b\n"}


def test_damage_that_two_meet_is_mended_once(tmp_path: Path) -> None:
    root = pipeline(
        tmp_path / "root",
        base=stage("cp in.txt base.txt", "base.txt", "in.txt"),
        a=stage("cp base.txt a.txt", "a.txt", "base.txt"),
        b=stage("cp base.txt b.txt", "b.txt", "base.txt"),
    )
    assert repro(root, QUALM_JOBS="2")[0] == 0
    for file in [*(root / ".dvc/cache/files").rglob("??/*")]:
        file.chmod(0o644)
        file.write_text("it\n")
        file.chmod(0o444)  # as DVC trusts them
    for name in ("a.txt", "b.txt", "base.txt"):
        (root / name).unlink()
    code, events = repro(root, QUALM_JOBS="2")
    assert code == 0 and (root / "a.txt").read_text() == (root / "b.txt").read_text() == "in\n"
    assert [e["event"] for e in events].count("damaged") >= 1


def names(*pairs: tuple[str, str]) -> Any:
    return nx.DiGraph(pairs)


def test_work_begins_in_order_after_what_it_depends_on() -> None:
    work = ReadyStages(["a", "b", "c", "d"], names(("c", "a"), ("d", "c"), ("d", "elsewhere")))
    assert work.begin(1) == ["a"] and work.begin(5) == ["b"] and work.begin(5) == []
    work.end("a")
    assert work.begin(0) == [] and work.begin(1) == ["c"]
    work.put_back("c")
    assert work.begin(5) == []  # not before another has ended
    work.end("b")
    assert work.begin(5) == ["c"] and work.waiting == ["d"]
    work.drop(["d"])
    assert work.waiting == []


def test_what_most_stages_wait_for_begins_first() -> None:
    before = {"data": set(), "asked": {"data"}, "tuned": {"data"}, "tuned_again": {"tuned"}, "scores": {"asked", "tuned_again"}}
    work = ReadyStages(list(before), names(*((stage, earlier) for stage, all_earlier in before.items() for earlier in all_earlier)))
    assert work.begin(5) == ["data"]
    work.end("data")
    assert work.begin(1) == ["tuned"] and work.begin(1) == ["asked"]


@pytest.mark.parametrize(("shown", "cards"), [("0,1", ["0", "1"]), (" 2 ,, 0", ["2", "0"]), ("", []), ("GPU-a", ["GPU-a"])])
def test_cards(monkeypatch: pytest.MonkeyPatch, shown: str, cards: list[str]) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert cards_here() == cards


def test_nothing_to_do() -> None:
    assert ParallelStages(2).reproduce([]) == []


def test_each_command_has_the_card_with_the_fewest_users_and_its_own_words(tmp_path: Path) -> None:
    stages, cards = ParallelStages(3, ["4", "7"], tmp_path / "words"), []
    own = stages._own
    with stages._surroundings("a"):
        cards.append(own.environment)
        with stages._surroundings("specs/x/dvc.yaml:b-2"):
            cards.append(own.environment)
            file = own.streams["stdout"]
            assert own.streams == {"stdout": file, "stderr": file} and file.name == str(tmp_path / "words/specs_x_dvc_yaml_b-2.log")
        assert file.closed
        with stages._surroundings("c"), stages._surroundings("d"):
            cards.append(own.environment)
    with stages._surroundings("e"):
        cards.append(own.environment)
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in cards] == ["4", "7", "4", "4"]
    assert sorted(path.name for path in (tmp_path / "words").iterdir()) == ["a.log", "c.log", "d.log", "e.log", "specs_x_dvc_yaml_b-2.log"]
    plain = ParallelStages(2)
    with plain._surroundings("a"):
        assert (plain._own.environment, plain._own.streams) == ({}, {})


def test_more_at_work_than_there_are_jobs_begins_nothing() -> None:
    work = ReadyStages(["a", "b"], names())
    assert work.begin(-1) == [] and work.begin(2) == ["a", "b"]
    work.put_back("a")
    work.put_back("b")
    assert work.waiting == ["b", "a"] and work.begin(2) == []
    work.end("c")
    assert work.begin(1) == ["b"] and work.begin(1) == ["a"]
