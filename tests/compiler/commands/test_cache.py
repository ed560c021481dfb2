"""`qualm cache`: says what the store holds and whose it is, and removes what no present spec can ask for, and only that."""

import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from qualm import __version__
from qualm.compiler.commands.cache import Users, _ago, _engine, _say, _table, app
from qualm.compiler.spec.errors import ProjectError
from qualm.runners.contracts.models import Part
from qualm.runners.data.answers import Store
from qualm.runners.data.maintenance import BUSY_SECONDS, CollectResult, Holding
from qualm.runners.data.refusal import refuse
from qualm.runners.runtime.code_digest import find_engine
from tests.support.processes.command_line import qualm as command

ROOT = Path(__file__).parents[3]


def qualm(folder, *arguments):
    done = command("cache", *arguments, cwd=folder, COLUMNS="200")
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def project(tmp_path):
    (tmp_path / "specs").mkdir()
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copy(ROOT / "specs" / "scene_vlm.yaml", tmp_path / "specs")
    own = find_engine("qualm.runners.plugins.models.hf_vlm")
    for identity, label in ((own.identity, "now"), ("gone", "before")):
        about = {"label": label, "plugin": "hf_vlm"}
        store = Store(tmp_path / ".qualm" / "store", "m", identity, about, f"s/infer-{label}", libraries=own.libraries)
        for i in range(3):
            store.put([bytes([i]) * 32, bytes([i + 9]) * 32], ["answer", "draw 1"], [Part("red"), Part("blue")])
    return tmp_path


def test_help_teaches():
    for arguments, said in (
        (["--help"], "a killed run goes on where it was"),
        (["du", "--help"], "Answers that no run uses are marked"),
        (["gc", "--help"], "Without options, no answer is lost"),
    ):
        done = qualm(ROOT, *arguments)
        assert done.returncode == 0 and said in " ".join(done.stdout.split())


def test_du(project):
    text = qualm(project, "du").stdout
    now, before = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("now", "before"))
    assert now.split()[2:6] == ["3", "3", "-", "3"] and "just now" in now
    assert max(map(len, text.splitlines()[:3])) <= 80, "a row is a line of a terminal"
    assert next(line for line in text.partition("used by")[2].splitlines() if line.split()[:1] == ["now"]).split()[-1] == "s/infer-now"
    assert " old " in before and " old " not in now
    assert "that no run uses (`qualm cache gc --unused` removes it)" in text
    facts = {f["model"]: f for f in json.loads(qualm(project, "du", "--json").stdout)}
    assert facts["now"]["specs"] == ["scene_vlm"] and facts["before"]["specs"] == []
    assert facts["now"]["parts"] == {"answer": 3, "draw": 3} and facts["now"]["segments"] == 3
    assert facts["now"]["bytes"] == sum(p.stat().st_size for p in Path(facts["now"]["folder"]).glob("*.segment"))


@pytest.mark.slow
def test_gc_removes_what_no_spec_uses(project):
    then = time.time() - BUSY_SECONDS - 60
    for path in (project / ".qualm" / "store").rglob("*"):
        if path.suffix == ".segment":
            path = path.rename(path.with_name(f"{int(then * 1e9):020d}-{path.name.partition('-')[2]}"))
        os.utime(path, (then, then))
    own = find_engine("qualm.runners.plugins.models.hf_vlm")
    whose = f"{__version__}/{own.libraries['torch']}"
    assert f"6 answers of 'before' by {whose} would be removed" in qualm(project, "gc", "--unused", "--dry-run").stdout
    assert len(json.loads(qualm(project, "du", "--json").stdout)) == 2
    assert "6 answers of 'before'" not in qualm(project, "gc", "--unused", "--older-than", "30", "--dry-run").stdout
    Store(project / ".qualm" / "store", "m", "gone", stage="s/infer-before", libraries=own.libraries)
    assert "used minutes ago and are kept" in qualm(project, "gc", "--unused", "--dry-run").stdout
    facts = json.loads(qualm(project, "gc", "--unused", "--older-than", "0", "--dry-run", "--json").stdout)
    assert facts["dry_run"] and facts["merged"] == 6 and len(facts["in_use"]) == 1


def test_gc_without_options_loses_nothing(project, monkeypatch):
    from qualm.runners.data import maintenance

    monkeypatch.chdir(project)
    monkeypatch.setattr(maintenance, "GRACE_SECONDS", 0.0)
    assert "6 segments merged into 2" in CliRunner().invoke(app, ["gc"]).output
    facts = json.loads(qualm(project, "du", "--json").stdout)
    assert [f["segments"] for f in facts] == [1, 1] and [sum(f["parts"].values()) for f in facts] == [6, 6]
    assert "nothing to do" in CliRunner().invoke(app, ["gc"]).output


@pytest.mark.slow
def test_refused_answers_are_shown_and_accepted_again(project):
    facts = {f["model"]: f for f in json.loads(qualm(project, "du", "--json").stdout)}
    name = Path(facts["now"]["folder"]).name
    refuse(project / ".qualm/store" / name, "bad memory")
    text = qualm(project, "du").stdout
    assert " refused " in next(line for line in text.splitlines() if line.startswith("now"))
    assert f"{name[:8]} is refused: bad memory (`qualm cache accept {name[:8]}`)" in " ".join(text.split())
    after = {f["model"]: f for f in json.loads(qualm(project, "du", "--json").stdout)}
    assert after["now"]["state"] == "refused" and after["now"]["refusal"] == "bad memory" and not after["now"]["specs"]
    assert "accepted" in qualm(project, "accept", name[:8]).stdout and "was not refused" in qualm(project, "accept", name).stdout
    failed = qualm(project, "accept", "")
    assert failed.returncode == 2 and "expected the beginning of one folder's name" in failed.stderr


def test_an_empty_store(tmp_path):
    (tmp_path / "specs").mkdir()
    shutil.copy(ROOT / "params.yaml", tmp_path)
    assert "the store is empty" in qualm(tmp_path, "du").stdout
    assert "nothing to do" in qualm(tmp_path, "gc", "--unused").stdout


@pytest.mark.slow
def test_a_spec_with_mistakes_keeps_everything(project):
    (project / "specs" / "wrong.yaml").write_text("qualm: 1\nname: wrong\nmodles: {}\n")
    done = qualm(project, "gc", "--unused")
    assert done.returncode == 2 and "specs/wrong.yaml has mistakes" in done.stderr
    assert "specs/wrong.yaml has mistakes" in qualm(project, "du").stdout
    states = {row["model"]: row["state"] for row in json.loads(qualm(project, "du", "--json").stdout)}
    assert states == {"now": "used", "before": "unclear"}
    (project / "qualm.toml").write_text("stoer = 1\n")
    assert qualm(project, "du").returncode == 2


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((then, "just now") for then in (-5, 0, 59)),
        *((60, "1 min ago"), (3599, "59 min ago"), (3600, "1 h ago"), (86399, "23 h ago"), (86400, "1 d ago"), (200000, "2 d ago")),
    ],
)
def test_when_answers_were_used(seconds, said, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1e9)
    assert _ago(1e9 - seconds) == said


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"qualm": "0.1.0", "libraries": {"torch": "2.13.0"}}, "0.1.0/2.13.0"),
        ({"qualm": "0.1.0", "libraries": {}}, "0.1.0"),
        ({"qualm": "0.1.0", "libraries": None}, "0.1.0"),
        ({}, "unknown"),
    ],
)
def test_what_computed_the_answers(about, said):
    assert _engine(SimpleNamespace(about=about)) == said


def holding(folder, label="m", parts=None, **more):
    libraries = {"torch": "2.1.0"}
    return Holding(folder, {"label": label, "qualm": "0.1.0", "libraries": libraries, "engine": "e"}, parts=Counter(parts), **more)


def printed(show, *arguments, capsys):
    show(*arguments)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_folder_is_named_by_how_it_begins(project, monkeypatch):
    monkeypatch.chdir(project)
    invoke = CliRunner().invoke
    first, second = sorted(p.name for p in (project / ".qualm/store").iterdir() if p.is_dir())
    refuse(project / ".qualm/store" / first, "bad memory")
    assert [invoke(app, ["accept", first[:12]]).output for _ in range(2)] == [f"{first}: accepted\n", f"{first}: was not refused\n"]
    for wrong, fits in (("", {first, second}), ("nothing", {"none"})):
        with pytest.raises(ProjectError, match=f"expected the beginning of one folder's name in .*, got '{wrong}', which fits ") as caught:
            invoke(app, ["accept", wrong], catch_exceptions=False)
        assert set(str(caught.value).rpartition("fits ")[2].split(", ")) == fits


def test_why_no_run_takes_answers(tmp_path):
    own = SimpleNamespace(accepts=lambda part, versions: part in versions, libraries={"torch": "2.1.3"})
    current, mistaken = Users({"e": (own, ("s", "t"))}, "minor"), Users({}, "minor", ("wrong",))
    (tmp_path / "refused").mkdir()
    refuse(tmp_path / "refused", "bad memory")
    states = {}
    for name, parts, versions, torch in (
        ("used", {"a": 1, "b": 2}, {"b": 1}, "2.1.0"), ("old", {"a": 1}, {"b": 1}, "2.1.0"), ("empty", {}, {"b": 1}, "2.1.0"),
        ("library", {"b": 1}, {"b": 1}, "2.2.0"), ("refused", {"b": 1}, {"b": 1}, "2.1.0"),
    ):  # fmt: skip
        one = holding(tmp_path / name, parts=parts)
        one.about |= {"versions": versions, "libraries": {"torch": torch}}
        states[name] = (current.state(one), current.specs(one), mistaken.state(one))
    assert states == {
        "used": ("", ["s", "t"], "unclear"), "old": ("old", [], "unclear"), "empty": ("old", [], "unclear"),
        "library": ("library", [], "unclear"), "refused": ("refused", [], "refused"),
    }  # fmt: skip


def test_the_store_by_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(time, "time", lambda: 1e9)
    names = [f"{n}" * 12 for n in range(3)]
    parts = {"answer": 1200, "options": 34, "draw": 5, "p_true": 6, "p_yes": 1}
    one = holding(tmp_path / names[0], "m", parts, segments=12, bytes=3 * 2**20, last_use=1e9, stages=["s/a", "s/b", "s/c"])
    two = holding(tmp_path / names[1], "n", {"draw": 7}, segments=4, bytes=2**20, last_use=1e9 - 3600, stages=["s/d", "s/e"])
    states = {names[0]: "", names[1]: "library"}
    current = SimpleNamespace(state=lambda h: states[h.folder.name], unreadable=())
    lines = printed(_table, [one, two], current, capsys=capsys)
    assert [line.split() for line in lines[:-1] if line] == [
        ["model", "engine", "answers", "draws", "signals", "segments", "size", "last", "used"],
        ["m", "0.1.0/2.1.0", "1,234", "5", "7", "12", "3.0", "MiB", "just", "now"],
        ["n", "0.1.0/2.1.0", "library", "-", "7", "-", "4", "1.0", "MiB", "1", "h", "ago"],
        ["used", "by"], ["m", "0.1.0/2.1.0", "s/a,", "s/b", "and", "1", "more"], ["n", "0.1.0/2.1.0", "s/d,", "s/e"],
    ]  # fmt: skip
    assert lines[-1] == "4.0 MiB in all; 1.0 MiB that no run uses (`qualm cache gc --unused` removes it)"
    (tmp_path / names[2]).mkdir()
    refuse(tmp_path / names[2], "bad")
    three = holding(tmp_path / names[2], parts={"answer": 1}, segments=9, bytes=5, damaged=2, last_use=1e9)
    states = dict.fromkeys(names, "unclear")
    current = SimpleNamespace(state=lambda h: states[h.folder.name], unreadable=("wrong",))
    assert printed(_table, [one, two, three], current, capsys=capsys)[-1] == (
        "4.0 MiB in all; 22222222 is refused: bad (`qualm cache accept 22222222`); specs/wrong.yaml has mistakes (`qualm validate wrong`); "
        "25 segments (`qualm cache gc` merges them); 2 damaged segments, whose answers are computed again when they are asked for"
    )
    assert printed(_table, [], current, capsys=capsys) == ["the store is empty"]


def test_what_was_made_smaller_is_told(tmp_path, capsys):
    gone = holding(tmp_path / "a", "old", {"answer": 1000, "draw": 234})
    done = CollectResult(
        merged=1200, into=1000, repeats=3000, leftovers=4000, removed=[gone], busy=[holding(tmp_path / "b", "new")], freed=2**21
    )
    whole = [
        "1,200 segments {}merged into 1,000", "3,000 repeated answers {}dropped", "4,000 damaged or half-written files {}removed",
        "1,234 answers of 'old' by 0.1.0/2.1.0 {}removed", "answers of 'new' were used minutes ago and are kept; try again later",
        "2.0 MiB {}freed",
    ]  # fmt: skip
    for dry in (False, True):
        assert printed(_say, done, dry, capsys=capsys) == [line.format("would be " if dry else "") for line in whole]
    assert printed(_say, CollectResult(repeats=1, freed=-5), False, capsys=capsys) == ["1 repeated answers dropped", "0 B freed"]
    assert printed(_say, CollectResult(), True, capsys=capsys) == ["nothing to do"]
