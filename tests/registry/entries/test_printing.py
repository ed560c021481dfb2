"""How `qualm data` says things: rows, facts, reports, differences, verdicts; the exact lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from qualm.registry.entries import printing
from qualm.registry.entries.adding import Added
from qualm.registry.entries.card import UNVERIFIED
from qualm.registry.entries.differences import Changes, VersionDifferences
from qualm.registry.entries.entries import Entry, Verdict
from qualm.registry.entries.layout import Inspection
from qualm.registry.entries.printing import MAX_LINES
from qualm.registry.entries.sentences import IN_PART
from qualm.registry.entries.versions import Version

HASH = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "registry/data").mkdir(parents=True)
    (tmp_path / "specs").mkdir()
    (tmp_path / "params.yaml").write_text("default: t\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_row_of_an_entry_with_a_card(root: Path) -> None:
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\n    remote = lab\n")
    row = printing.row(Entry(root, "mine", "pope", HASH, 2048, 3, skipped=True))
    assert (row["name"], row["kind"], row["card_name"], row["version"], row["md5"]) == ("mine", "dataset", "pope", HASH[:10], HASH)
    assert (row["bytes"], row["files"], row["where"], row["skip_bad"], row["origin"]) == (2048, 3, "remote", True, None)
    assert row["get"] == "dvc pull registry/data/mine.dvc" and row["splits"].keys() and row["licence"]


def test_a_row_of_an_entry_without(root: Path) -> None:
    (root / "registry/data/mine").mkdir()
    row = printing.row(Entry(root, "mine", None, HASH))
    assert (row["kind"], row["splits"], row["licence"], row["verified"], row["where"], row["get"]) == (None, {}, None, None, "here", None)


def test_facts_of_what_is_not_added(root: Path) -> None:
    facts = dict(printing.facts(Entry(root, "tdiuc", "tdiuc")))
    assert facts["kind"] == "dataset, read by 'tdiuc'" and facts["version"] == "-" and facts["where"] == "not added"
    assert "imported" not in facts and "in part" not in facts and "not yet" not in facts and "\n" not in facts["scoring"]
    assert facts["checked"] == UNVERIFIED
    assert dict(printing.facts(Entry(root, "vlm_uncertainty_bench", "vlm_uncertainty_bench")))["checked"] == (
        "layout and counts, against a release"
    )
    assert dict(printing.facts(Entry(root, "scene-vlm-base", "scene-vlm-base")))["kind"] == "model"


def test_facts_of_what_is_here_in_part(root: Path) -> None:
    facts = dict(printing.facts(Entry(root, "mine", None, HASH, 1536, None, "https://x@v1", True)))
    assert facts == {
        "version": f"{HASH} (1.5 KiB, 1 files)",
        "imported": "https://x@v1",
        "where": "remote",
        "in part": f"{IN_PART}; the numbers of splits and files below are those of the whole dataset",
    }
    assert dict(printing.facts(Entry(root, "mine", None, HASH, 5, 1234)))["version"] == f"{HASH} (5 B, 1,234 files)"


ROW = {
    "name": "mine", "kind": "dataset", "version": "0123456789", "bytes": 2048, "files": 12345, "where": "here", "licence": "CC0",
    "splits": {"test": 1500, "val": None}, "verified": True, "skip_bad": False,
}  # fmt: skip


@pytest.mark.parametrize(("width", "columns"), [(130, 8), (129, 6), (76, 6), (75, 4)])
def test_columns_by_the_terminal_s_width(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    printing.print_entries([ROW])
    shown = lines(capsys)
    head = ["name", "kind", "version", "size", "files", "where", "splits", "licence"] if columns != 4 else ["name", "kind", "size", "where"]
    assert shown[0].split() == head[:columns]
    cells = ["mine", "dataset", "0123456789", "2.0", "KiB", "12,345", "here"] if columns != 4 else ["mine", "dataset", "2.0", "KiB", "here"]
    assert shown[1].split()[: len(cells)] == cells
    for heading, cell in {"name": "mine", "kind": "dataset", "size": "2.0 KiB", "files": "12,345", "where": "here"}.items():
        if heading in shown[0]:
            over, under = shown[0].index(heading), shown[1].index(cell)
            assert over + len(heading) == under + len(cell) if heading in ("size", "files") else over == under
    below = "splits (official number of records); licence" in shown
    assert below == (columns < 8)
    assert any("test 1,500, val; CC0" in line for line in shown) == below
    assert below or ("test 1,500, val" in shown[1] and "CC0" in shown[1])


def test_a_long_licence_goes_on_below_itself(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "130")
    printing.print_entries([{**ROW, "licence": "one of many words " * 9, "skip_bad": True}])
    shown = lines(capsys)
    assert "here, in part" in shown[1] and "2.0 KiB" in shown[1] and len(shown) > 2
    assert " ".join(shown).split().count("many") == 9


def test_what_is_not_known_or_not_verified(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {**ROW, "kind": None, "version": None, "bytes": None, "files": None, "licence": None, "splits": {}}
    printing.print_entries([{**ROW, "verified": False, "skip_bad": True}, {**unknown, "verified": None, "where": "cache"}])
    shown = lines(capsys)
    assert shown[1].startswith("mine* ") and "here, in part" in shown[1]
    assert shown[2].split() == ["mine", "?", "-", "-", "-", "cache", "?"]


def test_zero_files_are_a_number(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_entries([{**ROW, "files": 0}])
    assert lines(capsys)[1].split()[5] == "0"


def test_labels_in_a_column_or_above(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from qualm.registry.system.console import Console

    monkeypatch.setenv("COLUMNS", "40")
    printing.print_labelled(Console(), [("x" * 20, "one"), ("y", "two")])
    assert lines(capsys) == [f"{'x' * 20}    one", f"y{' ' * 19}    two"]
    printing.print_labelled(Console(), [("x" * 21, "one"), ("y", "two")])
    assert lines(capsys) == [f"  {'x' * 21}", "    one", "  y", "    two"]
    printing.print_labelled(Console(), [])
    printing.print_wrapped("a [bold] word")
    assert "a [bold] word" in capsys.readouterr().out


def test_some_of_many(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_some(list(range(MAX_LINES)), "  ")
    assert lines(capsys) == [f"  {i}" for i in range(10)]
    printing.print_some(list(range(1011)), " ")
    assert lines(capsys) == [*(f" {i}" for i in range(10)), " and 1,001 more (--json lists them)"]


def added(root: Path, outcome: str = "added", card: str | None = None, origin: str | None = None, **inspection: object) -> Added:
    entry = Entry(root, "mine", card, HASH, origin=origin)
    return Added(entry, outcome, "f" * 32, Inspection({"a": 1024, "b": 1024}, **inspection))  # type: ignore[arg-type]


def test_a_report_of_what_was_added(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    splits = {"val": [5], "train": [7, 7], "test": [9, 3, 1000]}
    skipped = [f"s{i}" for i in range(11)]
    printing.report(added(root, splits=splits, skipped=skipped, left_out=["z.txt", "y.txt"]))
    shown = lines(capsys)
    assert shown[:5] == [
        "mine: added version 0123456789, 2 files, 2.0 KiB",
        "  test: 3 to 1,000 records in each of 3 files",
        "  train: 7 records in each of 2 files",
        "  val: 5 records in 1 file",
        "  let pass by --skip-bad: 11",
    ]
    assert shown[5:17] == [
        *(f"    s{i}" for i in range(10)),
        "    and 1 more (--json lists them)",
        "  not named by the card: 2 files, z.txt the first",
    ]
    assert shown[17:] == [
        "next:",
        "  git add registry/data/mine.dvc registry/data/.gitignore && git commit -m 'Data: mine'",
    ]


def test_a_report_of_what_was_there(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printing.report(added(root, "unchanged", card="tdiuc"))
    assert lines(capsys) == ["mine: already here, nothing changed: version 0123456789, 2 files, 2.0 KiB", f"  {UNVERIFIED}"]
    printing.report(added(root, "replaced"))
    assert lines(capsys)[0] == f"mine: replaced version {'f' * 10} by version 0123456789, 2 files, 2.0 KiB"


def test_what_to_type_next(root: Path) -> None:
    (root / ".dvc").mkdir()
    commit = "git add registry/data/mine.dvc registry/data/.gitignore && git commit -m 'Data: mine'"
    diff = f"qualm data diff mine@{'f' * 10}   # what the new version changes"
    assert printing.next_commands(added(root)) == [commit]
    assert printing.next_commands(added(root, "replaced")) == [commit, diff]
    (root / ".dvc/config").write_text("[core]\n    remote = lab\n")
    push = "dvc push registry/data/mine.dvc   # for others to pull"
    assert printing.next_commands(added(root, "replaced")) == [commit, diff, push]
    assert printing.next_commands(added(root, "replaced", origin="https://x@v1")) == [commit, diff]


def test_a_data_set_that_can_be_read_is_checked_next(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = root / "registry/data/mine"
    folder.mkdir()
    (root / "registry/cards").mkdir()
    (folder / "test.csv").write_text("question,answer\nWhich?,this\n")
    facts = {"kind": "dataset", "title": "T", "description": "D", "adapter": "image_table", "source": "https://x.org", "licence": "CC0"}
    card = {"name": "mine", **facts, "citation": "", "layout": [{"files": "test.csv"}], "args": {"image": None}}
    (root / "registry/cards/mine.yaml").write_text(yaml.safe_dump(card))
    assert printing.next_commands(added(root, card="mine"))[1] == "qualm data check mine   # reads every record"
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / "deep").mkdir()
    monkeypatch.chdir(root / "deep")
    command = printing.commit_command(Entry(root, "mine", "mine", HASH))
    assert command.startswith("git add ../registry/data/mine.dvc ../registry/data/.gitignore ../registry/cards/mine.yaml && ")
    identity = ["-c", "user.email=t@example.org", "-c", "user.name=t"]
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    subprocess.run(["git", *identity, "commit", "-q", "-m", "all"], cwd=root, check=True)
    assert "cards" not in printing.commit_command(Entry(root, "mine", "mine", HASH))


def version(label: str, md5: str) -> Version:
    return Version(label, "mine", md5, {}, None, None)


OLD, NEW = version("mine@1", "a" * 32), version("mine", "b" * 32)


def test_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    files = Changes(["new\n.txt"], [f"f{i}" for i in range(12)], {"c.txt": []}, 1000)
    samples = Changes([], [], {"s1": ["question", "image"], "s2": ["question"]}, 5)
    printing.print_difference(OLD, NEW, VersionDifferences(files, samples))
    assert lines(capsys) == [
        "mine@1 (aaaaaaaaaa) -> mine (bbbbbbbbbb)",
        "  files: 1 added, 12 removed, 1 changed, 1,000 the same",
        "    + 'new\\n.txt'",
        *(f"    - f{i}" for i in range(10)),
        "    - and 2 more (--json names all)",
        "    ~ c.txt",
        "  samples: 0 added, 0 removed, 2 changed, 5 the same",
        "    changed: question of 2, image of 1",
        "    ~ s1  (question, image)",
        "    ~ s2  (question)",
    ]


def test_a_difference_without_samples(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_difference(OLD, NEW, VersionDifferences(Changes(same=3), None, "nothing reads it"))
    assert lines(capsys)[1:] == ["  files: nothing reads it", "  samples: not compared: nothing reads it"]
    printing.print_difference(OLD, NEW, VersionDifferences(Changes(same=3), Changes(same=4)))
    assert lines(capsys)[1:] == [
        "  files: 0 added, 0 removed, 0 changed, 3 the same",
        "  samples: 0 added, 0 removed, 0 changed, 4 the same",
    ]
    printing.print_difference(OLD, NEW, VersionDifferences(Changes([f"f{i}" for i in range(10)]), None, "w"))
    assert lines(capsys)[1:-1] == ["  files: 10 added, 0 removed, 0 changed, w", *(f"    + f{i}" for i in range(10))]


def test_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_verdict("mine", Verdict(1234, (), (), (), ()))
    assert lines(capsys) == ["mine: 1,234 files checked, all as recorded"]
    printing.print_verdict("mine", Verdict(2, ("a\n",), ("b",), ("c",), ("p",)))
    assert lines(capsys) == [
        "mine: 2 files checked, NOT all as recorded", "  damaged: 'a\\n'", "  missing: b", "  extra: c", "  p",
        "  `dvc checkout --force registry/data/mine.dvc` restores the recorded files, `dvc pull` fetches them",
    ]  # fmt: skip
    for part in ("damaged", "missing", "extra"):
        printing.print_verdict(
            "mine", Verdict(**{**dict.fromkeys(("damaged", "missing", "extra", "problems"), ()), "checked": 1, part: ("x",)})
        )
        assert lines(capsys)[-1].startswith("  `dvc checkout --force")
    printing.print_verdict("mine", Verdict(2, (), (), (), ("p",)))
    assert lines(capsys)[-1] == "  p"


def test_verdicts_on_results(capsys: pytest.CaptureFixture[str]) -> None:
    again = "`qualm run s` restores or re-creates them"
    bad = Verdict(2, (), (), (), ("p",))
    printing.print_verdict("results/s", bad)
    assert lines(capsys)[-1] == f"  `qualm data verify --set-aside results/s`, then {again}"
    printing.print_verdict("results/s", bad, aside=True)
    assert lines(capsys)[-1] == f"  set aside; {again}"
    printing.print_verdict("results/s", Verdict(2, (), (), (), ()), aside=True)
    assert lines(capsys) == ["results/s: 2 files checked, all as recorded"]
    printing.print_verdict("results/s", Verdict(0, (), (), (), (), absent=42))
    assert lines(capsys) == [
        "results/s: 0 files checked, all as recorded",
        "  42 recorded files are not here, and not checked; `dvc pull` fetches them, `qualm run s` makes them",
    ]


def test_nobody_is_told_of_progress_where_nobody_sees_it(capsys: pytest.CaptureFixture[str]) -> None:
    for visible in (True, False):
        with printing.progress_line(visible) as tell, printing.counting(visible) as count:
            tell("reading", "a", 5, 10)
            tell("sending", "b", 5, 0)
            count("mine", 1000)
    assert capsys.readouterr().err.strip() == ""


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    with printing.progress_line(True) as tell:
        tell("reading", "x" * 50, 5, 10)
        tell("reading", "b.txt", 5, 10)
    assert "reading b.txt (2 files)" in capsys.readouterr().err
    with printing.progress_line(False) as tell:
        tell("reading", "a", 5, 10)
    assert "reading" not in capsys.readouterr().err
