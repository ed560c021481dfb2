"""What a spec took and cost here, from records of runs and the ledger."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from qualm.runners.runtime.run_times import (
    PICTURE,
    RunTimes,
    StageTime,
    format_dollars,
    format_duration,
    run_times,
    times_in_words,
    times_svg,
    write_times,
)
from qualm.runners.runtime.spending import Spent


def record(root: Path, stage: str, seconds: object, planned: bool = True) -> None:
    for folder, text in ((".qualm/runs/s", json.dumps({"seconds": seconds, "ended": "now", "processor": "p"})), ("specs/s/stages", "{}")):
        if folder.startswith(".qualm") or planned:
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / f"{stage}.json").write_text(text)


def test_records_of_the_stages_that_the_spec_has(tmp_path):
    for stage, seconds in (("judge", 1.5), ("infer", 300), ("broken", "x")):
        record(tmp_path, stage, seconds)
    record(tmp_path, "gone", 9000, planned=False)
    (tmp_path / "specs/s/stages/restored.json").write_text("{}")
    times = run_times("s", tmp_path)
    assert list(times.stages.items()) == [("infer", StageTime(300, "now", "p")), ("judge", StageTime(1.5, "now", "p"))]
    assert times.seconds == 301.5 and times.spent == Spent()
    assert times_in_words(times) == [
        ("Time", "5 min in 2 stages, each as it last ran here"), ("Spent on servers", "nothing"), ("infer", "5 min"), ("judge", "1.5 s"),
    ]  # fmt: skip


def test_what_servers_have_cost(tmp_path):
    ledger = tmp_path / ".qualm/spending/s.jsonl"
    ledger.parent.mkdir(parents=True)
    hold = {"most": 0.5, "account": "m at u", "by": "h:1", "at": 0.0}
    lines = [{"hold": "a", **hold}, {"settle": "a", "spent": 0.25, "account": "m at u"}, {"hold": "b", **hold}]
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = dict(times_in_words(run_times("s", tmp_path)))
    assert words == {
        "Time": "not known: nothing ran here",
        "Spent on servers": "$0.75, $0.50 of it reserved for requests that have not ended",
    }


def test_the_picture_names_the_slowest_and_fits(tmp_path):
    record(tmp_path, "pair-<x>-" + 60 * "y", 100)
    for place in range(10):
        record(tmp_path, f"infer-{place}", 10 + place)
    write_times("s", tmp_path)
    text = (tmp_path / ".qualm/runs/s" / PICTURE).read_text()
    assert text == times_svg(run_times("s", tmp_path))
    root = ET.fromstring(text)
    words = ["".join(part.itertext()) for part in root if part.tag.endswith("text")]
    assert words[:2] == ["Time4 min in 11 stages, each as it last ran here", "Spent on serversnothing"]
    assert words[2].startswith("pair-<x>-") and len(words[2]) == 40 and words[-2:] == ["3 more", "33 s"] and len(words) == 2 + 2 * 9
    lowest = max(float(part.get("y") or part[0].get("y")) for part in root if part.tag.endswith("text"))
    assert lowest <= float(root.get("height"))
    assert times_svg(RunTimes()).count("<text") == 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.01234, "0.012 s"), (59.4, "59 s"), (60, "1 min"), (89, "1 min"), (91, "2 min"), (3569, "59 min"), (3571, "1 h 0 min"),
        (12_000, "3 h 20 min"), (86_340, "23 h 59 min"), (86_400, "1 d 0 h"), (183_600, "2 d 3 h"),
    ],
)  # fmt: skip
def test_two_units_at_most(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0.0, "$0"), (0.00001, "$0.00001"), (0.0123, "$0.012"), (0.0999, "$0.1"), (0.1, "$0.10"), (1234.5, "$1,234.50")],
)
def test_amounts(amount: float, text: str) -> None:
    assert format_dollars(amount) == text
