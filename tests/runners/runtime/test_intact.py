from types import SimpleNamespace

import pytest

from qualm.runners.runtime import intact
from qualm.runners.runtime.intact import check_inputs
from qualm.runners.runtime.stage import StageError
from qualm.runners.runtime.status import STARTED_BY_DVC

STAGE = SimpleNamespace(inputs={"datasets": {"d": "data/d"}, "files": ["a", {"x": "b"}], "n": 3})


@pytest.fixture
def world(monkeypatch, tmp_path):
    """What is recorded, read and believed of each path; what was set aside."""
    state = SimpleNamespace(recorded={"data/d": "old", "a": "old"}, content={}, believed={}, aside=[], asked=[])

    def records(root, paths):
        state.asked = list(paths)
        return [SimpleNamespace(path=path, md5=md5) for path, md5 in state.recorded.items()]

    monkeypatch.setattr(intact, "recorded", records)
    monkeypatch.setattr(intact, "content", lambda root, path: state.content.get(path, "old"))
    monkeypatch.setattr(intact, "believed", lambda root, path: state.believed.get(path))
    monkeypatch.setattr(intact, "set_aside", lambda root, record: state.aside.append(record.path) or root / "aside")
    monkeypatch.setenv(STARTED_BY_DVC, "s")
    monkeypatch.delenv("QUALM_STATUS_FILE", raising=False)
    state.root = tmp_path
    return state


def test_whole_inputs_pass_and_every_path_among_them_is_asked_about(world):
    check_inputs(STAGE, world.root)
    assert world.asked == ["data/d", "a", "b", "3"] and world.aside == []


def test_damaged_ones_are_all_set_aside_and_named(world):
    world.content = {"data/d": "rotten", "a": "bad"}
    with pytest.raises(
        StageError, match=r"data/d \(recorded old, read rotten; now in aside\); a \(recorded old, read bad; now in aside\)"
    ) as error:
        check_inputs(STAGE, world.root)
    assert world.aside == ["data/d", "a"] and "made again when this is run again" in str(error.value)


def test_what_is_missing_or_was_changed_by_hand_is_dvcs_affair(world):
    world.content, world.believed = {"data/d": None, "a": "edited"}, {"a": "edited"}
    check_inputs(STAGE, world.root)
    assert world.aside == []


def test_what_a_person_runs_reads_what_lies_there(world, monkeypatch):
    monkeypatch.delenv(STARTED_BY_DVC)
    world.content = {"a": "bad"}
    check_inputs(STAGE, world.root)
    assert world.aside == []


def test_qualm_run_is_told_and_repairs_at_once(world, monkeypatch):
    status = world.root / "status"
    status.write_text("")
    monkeypatch.setenv("QUALM_STATUS_FILE", str(status))
    world.content = {"a": "bad"}
    with pytest.raises(StageError, match="made again now"):
        check_inputs(STAGE, world.root)
    assert '"damaged"' in status.read_text()
