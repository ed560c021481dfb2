import json
import time

from qualm.runners.runtime import progress as module
from qualm.runners.runtime import status
from qualm.runners.runtime.progress import INTERVAL, progress
from qualm.runners.runtime.settings import Settings


def events(monkeypatch, tmp_path, settings, *pauses):
    file = tmp_path / "status"
    file.write_text("")
    monkeypatch.setenv(status.FILE, str(file))
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress(settings, "work", 9) as advance:
        for pause in pauses:
            now[0] += pause
            advance(2)
    return [json.loads(line)["done"] for line in file.read_text().splitlines()]


def test_steps_are_told_at_the_start_now_and_then_and_at_the_end(monkeypatch, tmp_path):
    assert events(monkeypatch, tmp_path, Settings(progress=True), 0, INTERVAL, 0.1, INTERVAL) == [0, 4, 8, 8]
    (line, *_) = (tmp_path / "status").read_text().splitlines()
    assert json.loads(line) == {"event": "progress", "label": "work", "done": 0, "total": 9}


def test_nothing_is_told_where_progress_is_off_or_another_process_tells(monkeypatch, tmp_path):
    assert events(monkeypatch, tmp_path, Settings(progress=False), 1, 1) == []
    monkeypatch.setattr(module, "is_first", lambda: False)
    assert events(monkeypatch, tmp_path, Settings(progress=True), 1, 1) == []


def test_without_a_terminal_nothing_is_drawn(monkeypatch, capfd):
    monkeypatch.delenv(status.FILE, raising=False)
    with progress(Settings(progress=True), "work", 2) as advance:
        advance()
        advance(1)
    assert capfd.readouterr() == ("", "")
