import json

from qualm.runners.runtime import status


def test_where_nobody_reads_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.delenv(status.FILE, raising=False)
    status.tell("started", stage="s")
    assert not status.is_read()


def test_events_are_lines(monkeypatch, tmp_path):
    file = tmp_path / "status"
    file.write_text("")
    monkeypatch.setenv(status.FILE, str(file))
    status.tell("started", stage="s")
    status.tell("damaged", n=2)
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"event": "started", "stage": "s"},
        {"event": "damaged", "n": 2},
    ]


def test_one_answer_a_second_is_told(monkeypatch, tmp_path):
    file = tmp_path / "status"
    file.write_text("")
    monkeypatch.setenv(status.FILE, str(file))
    monkeypatch.delenv(status.STARTED_BY_DVC, raising=False)
    monkeypatch.setattr(status, "_next_answer", 0.0)
    monkeypatch.setattr(status.time, "monotonic", iter([10.0, 10.5, 11.0]).__next__)
    for word in ("a", "b", "c" * 1000):
        status.tell_answer("What?", word)
    assert [json.loads(line)["answer"] for line in file.read_text().splitlines()] == ["a", "c" * 400]


def test_a_file_that_is_gone_is_no_reader(monkeypatch, tmp_path):
    monkeypatch.setenv(status.FILE, str(tmp_path / "gone"))
    status.tell("started")
    assert not (tmp_path / "gone").exists()


def test_an_event_names_the_stage_that_dvc_started(monkeypatch, tmp_path):
    file = tmp_path / "status"
    file.write_text("")
    monkeypatch.setenv(status.FILE, str(file))
    monkeypatch.setenv(status.STARTED_BY_DVC, "judge")  # as in the stage's own process
    status.tell("started")
    assert json.loads(file.read_text()) == {"event": "started", "by": "judge"}
