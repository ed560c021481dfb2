import subprocess
import xml.etree.ElementTree as ET

import pytest

from qualm.runners.runtime.stamp import facts_in_words, here, picture, read_stamp, write_stamp

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
    assert here(repository)["git"] == head and here(repository)["git_dirty"] is True
    subprocess.run(["git", "rm", "-q", "--cached", "file"], cwd=repository, check=True)
    assert here(repository)["git_dirty"] is False, "files that are not tracked are no changes"
    outside = here(tmp_path_factory.mktemp("outside"))
    assert outside["git"] == "" and outside["git_dirty"] is False


def test_the_facts_are_left_and_read(tmp_path):
    assert read_stamp("s", tmp_path) is None
    write_stamp("s", tmp_path)
    facts = read_stamp("s", tmp_path)
    assert set(facts) == set(FACTS) and read_stamp("other", tmp_path) is None
    folder = tmp_path / ".qualm" / "runs" / "s"
    assert (folder / "made.svg").read_text() == picture(facts)
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
    root = ET.fromstring(picture(FACTS))
    words = ["".join(part.itertext()) for part in root if part.tag.endswith("text")]
    assert words == ["Git commitabc", "MachineA <fast> one & more (x86_64, 2 cores)", "Ended2026-11-22 UTC"]
    heights = [float(part[0].get("y")) for part in root if part.tag.endswith("text")]
    assert heights == sorted(set(heights)) and heights[-1] + 17 <= float(root.get("height"))


def test_what_is_wider_than_the_picture_goes_on_in_the_next_line():
    """A whole commit with its changes has 65 letters, of which some 50 fit."""
    facts = FACTS | {"git": "0123456789" * 4, "git_dirty": True, "processor": "Processor " * 8 + "model"}
    root = ET.fromstring(picture(facts))
    texts = [[part.text for part in text] for text in root if text.tag.endswith("text")]
    assert texts[0] == ["Git commit", "0123456789" * 4 + " with", "uncommitted changes"]
    assert all(len(line) <= 48 for text in texts for line in text)
    assert " ".join(texts[1][1:]) == "Processor " * 8 + "model (x86_64, 2 cores)", "nothing is left out"
    ends = [float(text[0].get("y")) + 17 * (len(text) - 1) for text in root if text.tag.endswith("text")]
    starts = [float(text[0].get("y")) for text in root if text.tag.endswith("text")]
    assert all(end + 17 <= start for end, start in zip(ends[:-1], starts[1:], strict=True)) and ends[-1] <= float(root.get("height"))
