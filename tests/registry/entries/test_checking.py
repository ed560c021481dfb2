"""`qualm data check`: all that is bad in a data set's records at once, each with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qualm.registry.adapters import AdapterContext, AdapterError, problem_of
from qualm.registry.commands.cli import app
from qualm.registry.entries.card import Card, CardError, load_card
from qualm.registry.entries.checking import check_records
from qualm.registry.sample import Image, Sample


@pytest.fixture
def vizwiz(tmp_path: Path) -> Path:
    answers = [{"answer": "red", "answer_confidence": "yes"}] * 10
    good = {"question": "?", "answers": answers, "answer_type": "other", "answerable": 1}
    records = [{**good, "image": f"VizWiz_val_{i:08d}.jpg"} for i in (0, 1, 1, 2)]
    records.append({**good, "image": "VizWiz_val_00000003.jpg", "answerable": 7})
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "Annotations/val.json").write_text("[" + ",\n".join(map(json.dumps, records)) + "]")
    (tmp_path / "val").mkdir()
    for i in (0, 1, 3):
        (tmp_path / f"val/VizWiz_val_{i:08d}.jpg").write_bytes(b"jpg")
    return tmp_path


def test_all_problems_with_their_places(vizwiz: Path) -> None:
    found = check_records(vizwiz, load_card("vizwiz"), {})
    assert found.splits == {"val": 2} and found.images == 2 and len(found.problems) == 3
    places = ("line 3, record 2)", "line 4, record 3: expected its picture", "line 5, record 4: answerable: expected 0 or 1")
    assert all(place in problem for place, problem in zip(places, found.problems, strict=True)), found.problems


def test_what_ends_the_reading_is_the_last_problem(vizwiz: Path) -> None:
    found = check_records(vizwiz, load_card("vizwiz"), {"split": "train"})
    assert not found.splits and len(found.problems) == 1 and "train.json: expected" in found.problems[0]
    text = (vizwiz / "Annotations/val.json").read_text()
    (vizwiz / "Annotations/val.json").write_text(text[: len(text) // 2])
    found = check_records(vizwiz, load_card("vizwiz"), {})
    assert found.splits.total() == 2 and "expected a whole JSON list" in found.problems[-1]


def test_pictures_that_come_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def adapter(context: AdapterContext, **arguments: object) -> Iterator[Image | Sample]:
        yield from (Image("a", b""), Image("a", b""), Sample("s", "?", "a"))

    monkeypatch.setattr("qualm.registry.entries.checking.load", lambda kind, name: adapter)
    found = check_records(None, load_card("synthetic_scenes"), {})
    assert found.problems == ["image 'a' comes twice; image ids must be unique"] and found.splits.total() == 1


def test_cards_that_nothing_reads() -> None:
    with pytest.raises(CardError, match="has no adapter"):
        check_records(None, load_card("scene-vlm-base"), {})
    needy: Card = load_card("vlm_uncertainty_bench").model_copy(update={"args": {}})
    with pytest.raises(CardError, match="needs dataset; give it by -O dataset=VALUE"):
        check_records(None, needy, {})


def test_what_no_sample_may_be() -> None:
    assert problem_of(Sample("a", "?", "i", choices=("x", "y"), answer_index=1), {"i"}, {"b"}) == ""
    for sample, said in (
        (Sample("b", "?"), "comes twice"),
        (Sample("a", "?", "j"), "has not come before it"),
        (Sample("a", "?", choices=("x", "y"), answer_index=2), "answer_index 2 is not one of its 2 choices"),
    ):
        assert said in problem_of(sample, {"i"}, {"b"})
    with pytest.raises(AdapterError), AdapterContext(Path()).record():
        raise AdapterError("ends")


def test_the_command(repo: Path, vizwiz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    run = CliRunner()
    done = run.invoke(app, ["check", "vizwiz", "--from", str(vizwiz)])
    assert done.exit_code == 1 and "vizwiz: 2 samples (val 2), 2 pictures, 3 problems" in done.output and "record 3" in done.output
    done = run.invoke(app, ["check", "vizwiz", "--from", str(vizwiz), "--json"])
    assert done.exit_code == 1 and len(json.loads(done.output)["problems"]) == 3
    assert run.invoke(app, ["check", "synthetic_scenes", "-O", "test=3"]).exit_code == 0
    for arguments, said in (
        (["check", "vizwiz", "--from", str(vizwiz), "-O", "part=val"], "expected NAME=VALUE"),
        (["check", "vizwiz", "--from", str(vizwiz / "gone")], "gone: does not exist; expected the folder with the official files"),
        (["check", "vizwiz", "--from", str(vizwiz / "Annotations/val.json")], "val.json: is a file; an archive has to be unpacked"),
        (["check", "vizwiz"], "its files are not here; `qualm data add vizwiz --from PATH` brings them"),
        (["check", "vizwis"], "did you mean 'vizwiz'?"),
        (["check", "scene-vlm-base"], "has no adapter"),
    ):
        done = run.invoke(app, arguments)
        assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output
