"""A run in progress, told from its files."""

import json
import os
import time
from pathlib import Path

from qualm.compiler.viewing.live import LiveRun
from qualm.compiler.viewing.site import Site


def told(root: Path, *events: dict) -> None:
    with (root / ".qualm/logs/run.events").open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def test_stages_words_money_and_who_is_at_work(tmp_path: Path) -> None:
    live = LiveRun(tmp_path)
    assert live.state() == {"command": "", "stages": [], "answers": [], "words": [], "spent": {}}
    for folder in ("logs", "locks", "spending"):
        (tmp_path / ".qualm" / folder).mkdir(parents=True)
    (tmp_path / ".qualm/locks/run.lock.holder").write_text(f"process {os.getpid()}, since 08:00:00: qualm run mine\n")
    (tmp_path / ".qualm/logs/run.stages.log").write_text("a \x1b[31mword\n")
    (tmp_path / ".qualm/spending/mine.jsonl").write_text('{"settle": "a", "spent": 0.25, "account": "x"}\n')
    told(
        tmp_path, {"event": "begin", "stage": "specs/mine/dvc.yaml:infer"}, {"event": "progress", "label": "answers", "done": 3, "total": 9}
    )
    state = live.state()
    (stage,) = state["stages"]
    assert stage.pop("seconds") >= 0
    assert stage == {"name": "mine/infer", "how": "at work", "label": "answers", "done": 3, "total": 9}
    assert state["command"] == "qualm run mine, since 08:00:00" and state["spent"] == {"mine": 0.25}
    assert state["words"] == ["a [31mword"]
    told(tmp_path, {"event": "done", "counts": "9 answers"}, {"event": "end", "stage": "specs/mine/dvc.yaml:infer", "how": "ran"})
    told(tmp_path, {"event": "begin", "stage": "score"}, {"event": "failed", "stage": "score"}, {"no": "event"})
    assert [(s["name"], s["how"]) for s in live.state()["stages"]] == [("mine/infer", "ran"), ("score", "failed")]
    assert live.state()["stages"][0]["counts"] == "9 answers"


def test_progress_is_of_the_stage_that_began_last_and_is_still_at_work(tmp_path: Path) -> None:
    (tmp_path / ".qualm/logs").mkdir(parents=True)
    (tmp_path / ".qualm/locks").mkdir()
    (tmp_path / ".qualm/locks/run.lock.holder").write_text("process 999999999, since 08:00:00: qualm run mine\n")
    live, events = LiveRun(tmp_path), tmp_path / ".qualm/logs/run.events"
    told(tmp_path, *({"event": "begin", "stage": name} for name in "ab"), {"event": "progress", "done": 1})
    os.utime(events, (time.time() - 1000,) * 2)
    first, second = live.state()["stages"]
    assert "done" not in first and second["done"] == 1 and 1000 <= first["seconds"] < 5000
    told(tmp_path, {"event": "end", "stage": "b", "how": "ran"}, {"event": "progress", "done": 2}, {"event": "failed", "stage": "c"})
    os.utime(events, (time.time() + 1000,) * 2)
    state = live.state()
    assert [(s["name"], s["how"], s.get("done")) for s in state["stages"]] == [("a", "at work", 2), ("b", "ran", 1), ("c", "failed", None)]
    assert state["stages"][0]["seconds"] == 0.0, "by a clock that is ahead nothing is to come"
    assert state["command"] == "", "whoever held the lock is gone"


def test_what_was_spent_is_told_to_a_hundredth_of_a_cent(tmp_path: Path) -> None:
    (tmp_path / ".qualm/spending").mkdir(parents=True)
    (tmp_path / ".qualm/spending/mine.jsonl").write_text('{"settle": "a", "spent": 0.123456789, "account": "x"}\n')
    assert LiveRun(tmp_path).state()["spent"] == {"mine": 0.1235}


def test_the_last_answers_come_first(tmp_path: Path) -> None:
    (tmp_path / ".qualm/logs").mkdir(parents=True)
    live = LiveRun(tmp_path)
    by = "specs/mine/dvc.yaml:infer-a-d"
    told(tmp_path, *({"event": "answer", "by": by, "question": f"q{i}", "answer": f"a{i}"} for i in range(9)))
    told(tmp_path, {"event": "answer", "by": by})
    answers = live.state()["answers"]
    assert [one["answer"] for one in answers] == ["a8", "a7", "a6", "a5", "a4", "a3"]
    assert answers[0] == {"stage": "mine/infer-a-d", "question": "q8", "answer": "a8"}


def test_another_run_begins_anew(tmp_path: Path) -> None:
    (tmp_path / ".qualm/logs").mkdir(parents=True)
    live = LiveRun(tmp_path)
    told(tmp_path, {"event": "begin", "stage": "first"}, {"event": "end", "stage": "first", "how": "restored"})
    assert len(live.state()["stages"]) == 1
    (tmp_path / ".qualm/logs/run.events").write_bytes(b"")
    told(tmp_path, {"event": "begin", "stage": "x"})
    assert [s["name"] for s in live.state()["stages"]] == ["x"]


def test_only_a_served_page_follows(site: Site, tmp_path: Path) -> None:
    parts = list(site.parts.values())
    assert Site(parts, "x").file("live.json") is None
    assert json.loads(Site(parts, "x", live=LiveRun(tmp_path)).file("live.json") or b"") == {
        "command": "",
        "stages": [],
        "answers": [],
        "words": [],
        "spent": {},
    }
