"""Which commands run code of a stranger's project: docs/explanation/trust.md is tried on a project full of traps."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image

from qualm.compiler.commands.main import complete_app
from tests.generated_pages import commands
from tests.support.projects.finished_project import commit
from tests.support.projects.hostile_project import PLUGINS, HostileProject

PAGE = Path(__file__).resolve().parents[2] / "docs/explanation/trust.md"
RUNS_CODE, RUNS_NONE, NETWORK = "imports plugins of the project", "runs no code of the project", "uses the network"
SAFE = {
    "init": "init ../another",
    "new": "new mine --extends t",
    "validate": "validate t",
    "plan": "plan t -v",
    "compile": "compile",
    "show": "show t --how",
    "experiments": "experiments t",
    "stats": "stats t",
    "graph": "graph t",
    "lineage": "lineage results/t/scores.parquet",
    "verify": "verify t scenes --merge ../decisions.csv",
    "ls": "ls metrics planted",
    "schema": "schema",
    "cite": "cite t",
    "clean": "clean gone --yes",
    "data ls": "data ls",
    "data show": "data show planted_card",
    "data add": "data add photos --from ../photos",
    "data new": "data new photos --from ../photos --yes --force",
    "data verify": "data verify",
    "cache du": "cache du",
    "cache gc": "cache gc",
    "cache accept": "cache accept STORE",
}
"""Command -> what is typed in the hostile project."""
IMPORTING = {
    "compare": ("compare t base other", {"runners.plugins.metrics"}),
    "diff": ("diff t", set()),  # nothing has changed, so nothing is tested
    "power": ("power t --metric planted", {"runners.plugins.metrics"}),
    "judges": ("judges t --labels ../labels.csv", {"runners.plugins.judges"}),
    "export": ("export t ../planted --to planted", {"runners.plugins.exports"}),
    "view": ("view t --publish ../site --images all", {"runners.plugins.perturbations"}),
    "data check": ("data check planted_card", {"registry.adapters"}),
}
"""Command -> what is typed, and the folders whose plugin it imports; without the commands that take a minute."""


def classes() -> dict[str, set[str]]:
    """Return the page's table: first cell -> commands."""
    section = PAGE.read_text(encoding="utf-8").partition("## Commands\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (`qualm .+?) \|$", section, re.MULTILINE)
    return {what: set(re.findall(r"`qualm ([a-z ]+)`", names)) for what, names in rows}


def app_commands() -> set[str]:
    return {name for name, _ in commands(typer.main.get_command(complete_app()))}


def test_the_page_puts_every_command_into_one_class() -> None:
    classified = classes()
    assert classified.keys() == {RUNS_CODE, RUNS_NONE, NETWORK}
    assert sorted(name for names in classified.values() for name in names) == sorted(app_commands())


def test_every_safe_command_is_tried() -> None:
    assert SAFE.keys() == classes()[RUNS_NONE]
    assert IMPORTING.keys() <= classes()[RUNS_CODE]


class Malicious:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> HostileProject:
    """A project that has run, with every trap laid after that."""
    folder = tmp_path_factory.mktemp("trust")
    made = HostileProject(folder)
    assert made.alarms() == []
    done = made.qualm("run", "t")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(made.alarms()) == {place.replace("/", ".") for place in PLUGINS} - {"runners.plugins.exports"}
    commit(made.root)
    made.plant()
    (folder / "decisions.csv").write_text("sample_id,content,reviewer,decision,note\nunknown,x,bob,valid,\n")
    (folder / "labels.csv").write_text("question,reference,prediction,is_refusal,rating\nwhat?,red,red,0,1\nwhat?,red,blue,0,0\n")
    (folder / "photos").mkdir()
    for i in range(2):
        Image.new("RGB", (32, 32), (90 * i, 0, 0)).save(folder / f"photos/{i}.png")
    (folder / "photos/t.csv").write_text("image,question,answer\n0.png,what?,red\n1.png,who?,<script>alert(1)</script>\n")
    assert made.qualm("data", "new", "photos", "--from", "../photos", "--yes").returncode == 0
    made.alarms()
    return made


def typed(project: HostileProject, line: str) -> list[str]:
    store = next((path.name for path in (project.root / ".qualm/store").iterdir() if path.is_dir()), "")
    return line.replace("STORE", store).split()


@pytest.mark.slow
@pytest.mark.parametrize("command", SAFE)
def test_safe_commands_run_no_code_of_the_project(project: HostileProject, command: str) -> None:
    if command == "clean":
        (project.root / "results/gone").mkdir(exist_ok=True)
    done = project.qualm(*typed(project, SAFE[command]))
    assert project.alarms() == []
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", IMPORTING)
def test_importing_commands_import_plugins_and_run_nothing_else(project: HostileProject, command: str) -> None:
    line, plugins = IMPORTING[command]
    done = project.qualm(*typed(project, line))
    assert set(project.alarms()) == plugins
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("share t --dry-run", []),
        ("fetch --data planted_card --dry-run", []),
        ("share t --anyway", ["credential_process"]),  # the remote's own settings name a program, which its client starts
    ],
)
def test_network_commands_run_what_a_remote_names(project: HostileProject, line: str, expected: list[str]) -> None:
    assert project.qualm(*line.split()).returncode in (1, 2)
    assert project.alarms() == expected


@pytest.mark.slow
def test_hostile_files_are_refused(project: HostileProject) -> None:
    bell = project.canaries / "file"
    pickled = project.root.parent / "pickled/output/run/mmbench.pkl"
    pickled.parent.mkdir(parents=True)
    pickled.write_bytes(pickle.dumps([Malicious(bell)]))
    (project.root / "evil.yaml").write_text(f"qualm: 1\nname: !!python/object/apply:os.system ['touch {bell}']\n")
    for line in ("validate evil.yaml", "data add vlm_uncertainty_bench --from ../pickled"):
        assert project.qualm(*line.split()).returncode in (1, 2)
    assert project.alarms() == []
