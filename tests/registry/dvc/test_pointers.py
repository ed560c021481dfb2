import pytest

from qualm.registry.dvc.config import DvcStateError
from qualm.registry.dvc.pointers import pointer, stages

MD5 = "0123456789abcdef0123456789abcdef"


def test_a_dvc_file_is_given_back_as_it_stands():
    raw = {"outs": [{"path": "x", "md5": f"{MD5}.dir", "size": 0, "nfiles": 0, "hash": "md5"}], "deps": [{"repo": {"url": "u"}}]}
    assert pointer(raw, "x.dvc") is raw


@pytest.mark.parametrize(
    "raw, message",
    [
        ([], "x.dvc: not a DVC file with an output: expected a mapping, got a list; restore it with `git checkout x.dvc` or delete it"),
        ({}, "outs: expected this key, got a mapping"),
        ({"outs": []}, "outs: expected at least one, got a list"),
        ({"outs": [{"path": ["a"]}]}, "outs.0.path: expected text, got a list"),
        ({"outs": [{"path": "x", "md5": 12345}]}, "outs.0.md5: expected an MD5 as text, in quotes if it is all digits, got a number 12345"),
        ({"outs": [{"path": "x", "md5": MD5[:-1]}]}, "outs.0.md5: expected an MD5 as text"),
        ({"outs": [{"path": "x", "md5": MD5.upper()}]}, "outs.0.md5: expected an MD5 as text"),
        ({"outs": [{"path": "x", "size": -1}]}, "outs.0.size: Input should be greater than or equal to 0|outs.0.size: expected"),
        ({"outs": [{"path": "x", "nfiles": 1.5}]}, "outs.0.nfiles: expected a whole number, got a number 1.5"),
        ({"outs": [{"path": "x"}], "deps": [{"repo": {}}]}, "deps.0.repo.url: expected this key"),
    ],
)
def test_what_is_no_dvc_file(raw, message):
    with pytest.raises(DvcStateError) as error:
        pointer(raw, "x.dvc")
    assert any(part in str(error.value) for part in message.split("|"))


def test_stages_of_a_lock_without_what_is_empty():
    raw = {"schema": "2.0", "stages": {"a": {"cmd": "x", "deps": None, "outs": [{"path": "o", "md5": MD5}], "params": {"f": None}}}}
    assert stages(raw, "dvc.lock") == {"a": {"cmd": "x", "outs": [{"path": "o", "md5": MD5}], "params": {"f": None}}}
    assert stages(None, "dvc.lock") == stages({}, "dvc.lock") == stages({"stages": None}, "dvc.lock") == {}


@pytest.mark.parametrize(
    "raw, message",
    [
        ("text", "dvc.lock: expected a DVC lock, got text"),
        ({"stages": {"a": {"cmd": 7}}}, "dvc.lock: not a DVC lock: stages.a.cmd"),
        ({"stages": {"a": {"outs": [{}]}}}, "stages.a.outs.0.path: expected this key"),
        ({"stages": {"a": []}}, "stages.a: expected a mapping, got a list"),
    ],
)
def test_what_is_no_lock(raw, message):
    with pytest.raises(DvcStateError, match=message.replace(".", r"\.")):
        stages(raw, "dvc.lock")
