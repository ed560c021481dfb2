"""Writing a strength into a spec changes the value and keeps comments, quotes and order."""

import re
from pathlib import Path

import pytest

from qualm.compiler.commands.edit_yaml import EditTarget, edited, perturbations_file, write
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.yaml_positions import parse

TEXT = """\
qualm: 1 # x
title: 'quoted'    # stays
perturbations:   # of all
  - blur   # hm
  - gaussian_noise: {sigma: 40}    # forty

  - cutout:
      # how much
      ratio: [0.1, 0.2] # sweep
      of: side
  - pixelate:
      k:
        - 2   # two
        - 5
      relative: true
  - typos:
  - dark: {factor: [0.5, 0.2]}
  - solarize: {}
  - shuffle: {unit: words}
  - jpeg:
      chroma: "4:4:4"
metrics: [a]
"""
CASES = [
    (0, "blur", "radius", None, "replace", "- blur   #", "- blur: {radius: 0.31}   #"),
    (0, "blur", "radius", None, "add", "- blur   #", "- blur: {radius: 0.31}   #"),
    (1, "gaussian_noise", "sigma", None, "replace", "{sigma: 40}", "{sigma: 0.31}"),
    (1, "gaussian_noise", "sigma", None, "add", "{sigma: 40}", "{sigma: [40, 0.31]}"),
    (2, "cutout", "ratio", None, "replace", "[0.1, 0.2] #", "0.31 #"),
    (2, "cutout", "ratio", 0.2, "replace", "[0.1, 0.2] #", "[0.1, 0.31] #"),
    (2, "cutout", "ratio", None, "add", "[0.1, 0.2] #", "[0.1, 0.2, 0.31] #"),
    (2, "cutout", "fill", None, "replace", "      of: side\n", "      of: side\n      fill: 0.31\n"),
    (3, "pixelate", "k", None, "replace", "k:\n        - 2   # two\n        - 5\n", "k: 0.31\n"),
    (3, "pixelate", "k", 5, "replace", "        - 5\n", "        - 0.31\n"),
    (3, "pixelate", "k", None, "add", "        - 5\n", "        - 5\n        - 0.31\n"),
    (4, "typos", "p", None, "replace", "- typos:\n", "- typos: {p: 0.31}\n"),
    (5, "dark", "factor", None, "replace", "[0.5, 0.2]}", "0.31}"),
    (5, "dark", "factor", 0.2, "replace", "[0.5, 0.2]}", "[0.5, 0.31]}"),
    (5, "dark", "factor", None, "add", "[0.5, 0.2]}", "[0.5, 0.2, 0.31]}"),
    (6, "solarize", "threshold", None, "replace", "{}", "{threshold: 0.31}"),
    (7, "shuffle", "k", None, "replace", "{unit: words}", "{unit: words, k: 0.31}"),
    (8, "jpeg", "quality", None, "replace", '4:4:4"\n', '4:4:4"\n      quality: 0.31\n'),
]


@pytest.mark.parametrize(("index", "plugin", "parameter", "point", "mode", "old", "new"), CASES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_the_value_changes_in_the_usual_layout(index, plugin, parameter, point, mode, old, new, newline) -> None:
    text = TEXT.replace("\n", newline)
    place = EditTarget(Path("s.yaml"), index, plugin, parameter, point)
    assert TEXT.count(old) == 1
    after = edited(text, place, 0.31, mode)
    assert after.count(newline) == after.count("\n")
    # Columns of comments may move; everything else is as it was.
    assert re.sub(" +#", " #", after.replace(newline, "\n")) == re.sub(" +#", " #", TEXT.replace(old, new))


def test_a_point_of_a_sweep_may_be_written_as_it_is() -> None:
    assert edited(TEXT, EditTarget(Path("s.yaml"), 2, "cutout", "ratio", 0.2), 0.2, "replace") == TEXT


@pytest.mark.parametrize(
    ("old", "new"),
    [("null", "{p: 3}"), ("~", "{p: 3}"), ("", " {p: 3}"), ("{p: [0.5]}", "{p: [0.5, 3]}"), ("{p: [1, 2, 5]}", "{p: [1, 2, 5, 3]}")],
)
def test_an_entry_that_says_nothing_yet(old: str, new: str) -> None:
    text = "perturbations:\n  - typos:{}\nmetrics: [a]\n"
    place = EditTarget(Path("s.yaml"), 0, "typos", "p")
    start = text.format(f" {old}" if old else "")
    assert edited(start, place, 3.0, "add") == text.format(f" {new.strip()}")


def test_a_section_may_be_the_first_line() -> None:
    once = edited("perturbations: [blur]\n", EditTarget(Path("s.yaml"), 0, "blur", "radius"), 2.0, "replace", "by eye")
    assert once == "# calibrated: blur.radius by eye\nperturbations: [blur: {radius: 2}]\n"
    again = edited(once, EditTarget(Path("s.yaml"), 0, "blur", "radius"), 3.0, "replace", "by ear")
    assert again == "# calibrated: blur.radius by ear\nperturbations: [blur: {radius: 3}]\n"


def test_a_comment_stands_above_the_entry_and_gives_way_to_the_next() -> None:
    place = EditTarget(Path("s.yaml"), 2, "cutout", "ratio")
    once = edited(TEXT, place, 0.31, "replace", "changes 20%\nof all")
    assert "\n\n  # calibrated: cutout.ratio changes 20% of all\n  - cutout:\n" in once
    twice = edited(once, place, 0.3, "replace", "changes 19%")
    assert twice.count("# calibrated") == 1 and "cutout.ratio changes 19%" in twice
    other = edited(twice, EditTarget(Path("s.yaml"), 2, "cutout", "fill"), 7, "replace", "by eye")
    assert other.count("# calibrated") == 2 and parse(other, "s.yaml").data["perturbations"][2]["cutout"]["fill"] == 7


def test_entries_in_one_line_have_their_comment_above_the_section() -> None:
    text = "a: 1\nperturbations: [blur, dark: {factor: 0.5}]   # both\n"
    assert edited(text, EditTarget(Path("s.yaml"), 1, "dark", "factor"), 0.4, "add", "by eye") == (
        "a: 1\n# calibrated: dark.factor by eye\nperturbations: [blur, dark: {factor: [0.5, 0.4]}] # both\n"
    )


def test_what_stands_there_already_is_not_added() -> None:
    with pytest.raises(ProjectError, match=r"cutout: ratio: 0\.2 is there already"):
        edited(TEXT, EditTarget(Path("s.yaml"), 2, "cutout", "ratio"), 0.2, "add")
    with pytest.raises(ProjectError, match=r"cutout: ratio: 0\.1 is there already"):
        edited(TEXT, EditTarget(Path("s.yaml"), 2, "cutout", "ratio", 0.2), 0.1, "replace")


@pytest.mark.parametrize(("index", "plugin", "parameter", "left"), [(0, "blur", "radius", "k: &r 2"), (1, "pixelate", "k", "radius: &r 2")])
def test_a_value_that_others_share_changes_here_alone(index, plugin, parameter, left) -> None:
    text = "perturbations:\n  - blur: {radius: &r 2}\n  - pixelate: {k: *r}\n"
    after = edited(text, EditTarget(Path("s.yaml"), index, plugin, parameter), 3.0, "replace")
    assert f"{parameter}: 3}}" in after and left in after


def test_byte_order_mark_newlines_and_mode_stay(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + "perturbations: [blur]  # é\r\n".encode())
    file.chmod(0o640)
    assert write(EditTarget(file, 0, "blur", "radius"), 2.5, "replace") == "s.yaml: blur: radius: set 2.5"
    assert file.read_bytes() == b"\xef\xbb\xbf" + "perturbations: [blur: {radius: 2.5}] # é\r\n".encode()
    assert file.stat().st_mode & 0o777 == 0o640


def test_the_section_may_stand_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: a\nperturbations: [blur]\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\nname: b\n")
    (tmp_path / "c.yaml").write_text("extends: a.yaml\nname: c\nperturbations: [dark]\n")
    assert [perturbations_file(tmp_path / f"{n}.yaml", tmp_path).name for n in "abc"] == ["a.yaml", "a.yaml", "c.yaml"]
