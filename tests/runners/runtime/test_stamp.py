import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from qualm.runners.runtime.stamp import facts_in_words, facts_svg, memory_used, read_stamp, run_facts, write_stamp

FACTS = {"git": "abc", "git_dirty": False, "machine": "x86_64", "processor": "A <fast> one & more", "cores": 2, "ended": "2026-11-22 UTC"}


@pytest.fixture
def repository(tmp_path):
    for words in (["init", "-q"], ["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "m"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "file").write_text("1")
    subprocess.run(["git", "add", "file"], cwd=tmp_path, check=True)
    return tmp_path


def test_commit_and_changes_are_those_of_the_checkout(repository, tmp_path_factory):
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True).stdout.strip()
    assert run_facts(repository)["git"] == head and run_facts(repository)["git_dirty"] is True
    subprocess.run(["git", "rm", "-q", "--cached", "file"], cwd=repository, check=True)
    assert run_facts(repository)["git_dirty"] is False, "files that are not tracked are no changes"
    outside = run_facts(tmp_path_factory.mktemp("outside"))
    assert outside["git"] == "" and outside["git_dirty"] is False


def test_the_facts_are_left_and_read(tmp_path):
    assert read_stamp("s", tmp_path) is None
    write_stamp("s", tmp_path)
    facts = read_stamp("s", tmp_path)
    assert set(facts) == set(FACTS) and read_stamp("other", tmp_path) is None
    folder = tmp_path / ".qualm" / "runs" / "s"
    assert (folder / "made.svg").read_text() == facts_svg(facts)
    (folder / "made.json").write_text("[]")
    assert read_stamp("s", tmp_path) is None
    (folder / "made.json").write_text("{")
    assert read_stamp("s", tmp_path) is None


@pytest.mark.parametrize(
    "changes, commit",
    [({}, "abc"), ({"git_dirty": True}, "abc with uncommitted changes"), ({"git": "", "git_dirty": True}, "no git repository")],
)
def test_the_facts_in_words(changes, commit):
    assert facts_in_words({**FACTS, **changes}) == [
        ("Git commit", commit), ("Machine", "A <fast> one & more (x86_64, 2 cores)"), ("Ended", "2026-11-22 UTC"),
    ]  # fmt: skip


def test_the_picture_is_svg_whatever_the_machine_is_called():
    root = ET.fromstring(facts_svg(FACTS))
    words = ["".join(part.itertext()) for part in root if part.tag.endswith("text")]
    assert words == ["Git commitabc", "MachineA <fast> one & more (x86_64, 2 cores)", "Ended2026-11-22 UTC"]
    heights = [float(part[0].get("y")) for part in root if part.tag.endswith("text")]
    assert heights == sorted(set(heights)) and heights[-1] + 17 <= float(root.get("height"))


def test_what_a_process_takes_is_its_memory_and_the_gpus_that_it_worked_on(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    facts = memory_used()
    assert set(facts) == {"peak_memory"} and 10_000_000 < facts["peak_memory"] < 1e12, "bytes, and no GPU"
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 2,
        get_device_name=lambda i: f"card {i}",
        max_memory_allocated=lambda i: 1024 * i,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert memory_used()["gpus"] == [{"name": "card 1", "peak_memory": 1024}], "the other one was not used"


def test_the_stamp_names_the_gpus_of_all_stages(tmp_path):
    folder = tmp_path / ".qualm" / "runs" / "s"
    folder.mkdir(parents=True)
    (folder / "infer.json").write_text(json.dumps({"gpus": [{"name": "card 1", "peak_memory": 5}]}))
    (folder / "judge.json").write_text(json.dumps({"peak_memory": 5}))
    for _ in range(2):
        write_stamp("s", tmp_path)
        facts = read_stamp("s", tmp_path)
        assert facts["gpus"] == ["card 1"] and ("GPUs of its stages", "card 1") in facts_in_words(facts)
    assert "card 1" in facts_svg(facts)
    cards = [{"name": f"card {number}"} for number in (5, 2, 4, 3, 1, 2)]
    (folder / "score.json").write_text(json.dumps({"gpus": [*cards, {"peak_memory": 5}, "card 7"]}))
    write_stamp("s", tmp_path)
    assert read_stamp("s", tmp_path)["gpus"] == [f"card {number}" for number in (1, 2, 3, 4, 5)], "each once, in order"


def test_what_is_wider_than_the_picture_goes_on_in_the_next_line():
    """A whole commit with its changes has 65 letters, of which some 50 fit."""
    facts = FACTS | {"git": "0123456789" * 4, "git_dirty": True, "processor": "Processor " * 8 + "model"}
    root = ET.fromstring(facts_svg(facts))
    texts = [[part.text for part in text] for text in root if text.tag.endswith("text")]
    assert texts[0] == ["Git commit", "0123456789" * 4 + " with", "uncommitted changes"]
    assert all(len(line) <= 48 for text in texts for line in text)
    assert " ".join(texts[1][1:]) == "Processor " * 8 + "model (x86_64, 2 cores)", "nothing is left out"
    ends = [float(text[0].get("y")) + 17 * (len(text) - 1) for text in root if text.tag.endswith("text")]
    starts = [float(text[0].get("y")) for text in root if text.tag.endswith("text")]
    assert all(end + 17 <= start for end, start in zip(ends[:-1], starts[1:], strict=True)) and ends[-1] <= float(root.get("height"))
