"""The command line as a whole: its help, and one message for whatever is foreseen."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from qualm import __version__
from qualm.compiler import commands
from qualm.compiler.commands import main
from qualm.compiler.spec.errors import Position, Problem, ProjectError, SpecError
from qualm.registry.plugins.registry import ROOT
from qualm.registry.system.failures import TRACEBACK
from qualm.registry.system.versions import describe_versions
from tests.support.processes.command_line import qualm


def test_help_teaches() -> None:
    done = qualm("--help")
    assert done.returncode == 0
    for command in (
        "validate",
        "plan",
        "compile",
        "run",
        "diff",
        "ls",
        "graph",
        "lineage",
        "schema",
        "new",
        "show",
        "compare",
        "verify",
        "cache",
        "data",
    ):
        assert command in done.stdout


GROUPS = {"cache", "doctor"}


def test_every_command_that_is_written_is_listed(app: typer.Typer) -> None:
    modules = [m for m in vars(main).values() if isinstance(m, ModuleType) and m.__name__.startswith(f"{commands.__name__}.")]
    assert modules
    written = {
        f for m in modules for name, f in vars(m).items() if isinstance(f, FunctionType) and f.__module__ == m.__name__ and name[0] != "_"
    }
    assert {command.callback for command in app.registered_commands} == written
    assert {group.name for group in app.registered_groups} == {*GROUPS, "data"}


@pytest.mark.slow
def test_a_damaged_lock_is_one_message(tmp_path: Path) -> None:
    from tests.end_to_end.clone import make_clone

    clone = make_clone(tmp_path / "clone", "quickstart")
    (clone.root / "dvc.lock").write_text("schema: '2.0'\nstages: [\n")
    done = clone.qualm("plan", check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "dvc.lock: not YAML" in done.stderr


@pytest.mark.slow
def test_outside_of_a_checkout(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
            "from qualm.compiler.commands.main import main; sys.argv = ['qualm', 'plan']; main()",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "change into a project, or make one by `qualm init NAME`" in done.stderr


def test_version() -> None:
    assert qualm("--version").stdout == f"qualm {__version__}\n"


def test_commands_stand_in_groups() -> None:
    text = qualm("--help").stdout
    panels = {panel for panel, _ in main.COMMANDS.values()}
    assert len(panels) == 5 and all(f"─ {panel} ─" in text for panel in panels) and "─ Commands ─" not in text


def every_command() -> list[tuple[list[str], str]]:
    """Words of each command, and its docstring."""
    from qualm.compiler.commands.cache import app as cache
    from qualm.compiler.commands.doctor import app as doctor
    from qualm.registry.entries.cli import app as data

    groups = {"": main.app, "data": data, "doctor": doctor, "cache": cache}
    return [
        ([*group.split(), command.name or command.callback.__name__], command.callback.__doc__ or "")  # type: ignore[union-attr]
        for group, app in groups.items()
        for command in app.registered_commands
    ]


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    main.complete_app()
    return main.app


@pytest.mark.parametrize(("words", "doc"), [pytest.param(*one, id=" ".join(one[0])) for one in every_command()])
def test_help_fits_80_columns_and_breaks_no_example(words: list[str], doc: str, app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(app, [*words, "--help"]).output.splitlines()
    assert lines and max(map(len, lines)) <= 80
    examples = [line.strip() for line in inspect.cleandoc(doc).splitlines() if line.startswith("  ")]
    assert set(examples) <= {line.strip() for line in lines}


@pytest.mark.parametrize("words", [[], ["data"], ["doctor"], ["cache"]], ids=str)
def test_a_group_alone_shows_its_help(words: list[str], app: typer.Typer) -> None:
    alone, asked = CliRunner().invoke(app, words), CliRunner().invoke(app, [*words, "--help"])
    assert "Usage: " in asked.output and alone.output.split() == asked.output.split()


def completed(words: str) -> list[str]:
    """What a bash completes a line to."""
    done = qualm(_QUALM_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1))
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("qualm validate quick", "quickstart"),
        ("qualm show certainly_uncertain_scenes --model sft_ot", "sft_other"),
        ("qualm show quickstart --dataset scenes_", "scenes_mc"),
        ("qualm show certainly_uncertain_scenes --metric f1", "f1_idk"),
        ("qualm compare quickstart ba", "base"),
        ("qualm compare certainly_uncertain_scenes:dpo_o", "certainly_uncertain_scenes:dpo_ours"),
        ("qualm ls metr", "metrics"),
        ("qualm ls metrics ece_i", "ece_idk"),
        ("qualm data show vqa", "vqav2"),
        ("qualm data add scene --card scene", "scene-vlm-base"),
        ("qualm doctor model scene-v", "scene-vlm-base"),
        ("qualm export quickstart out --to vlme", "vlmevalkit"),
    ],
)
def test_the_shell_completes_names(words: str, name: str) -> None:
    assert completed(words)[:1] == [name]


@pytest.mark.slow
def test_completing_loads_no_torch() -> None:
    code = (
        "import sys, types; from qualm.compiler.commands import completion as c; from qualm.registry.entries import completion as r\n"
        "context = types.SimpleNamespace(params={'spec': 'quickstart', 'kind': 'models'})\n"
        "for f in (c.specs, c.models, c.sides, c.metrics, c.datasets, r.data, r.plugins): assert f(context, '')\n"
        "print(sorted(m for m in ('torch', 'transformers', 'dvc', 'pyarrow') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("validate quickstart", 0),
        ("plan vlm_uqbench --exit-code", 1),
        ("validate nothing", 2),
        ("validate --nothing", 2),
        ("nothing", 2),
        ("ls xyzzy", 2),
        ("compare quickstart", 2),
        ("compare quickstart base nobody", 2),
        ("export quickstart --to hf", 2),
        ("diff quickstart no-such-revision", 2),
        ("data show nothing", 2),
        ("share no-such-remote", 2),
    ],
)
def test_exit_codes(command: str, code: int) -> None:
    done = qualm(*command.split())
    assert done.returncode == code and "Traceback" not in done.stderr


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; from qualm.compiler.commands import main as cli; from qualm.compiler.project import checkout as project\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "project.Project.resolve = stop; sys.argv = ['qualm', 'validate']; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (ProjectError("no spec"), "no spec", 2),
        (FileNotFoundError(2, "No such file or directory", "a.yaml"), "a.yaml: No such file or directory", 2),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "expected UTF-8 text: 'utf-8' codec can't decode", 2),
        (RecursionError(), "nested too deep", 2),
        (MemoryError(), "more memory than there is", 2),
        (pl.exceptions.ComputeError("parquet: bad data"), "a table that was read is damaged (parquet: bad data); `dvc status` names it", 2),
        (KeyError("x"), "unexpected KeyError: 'x'; this is a fault of Qualm or of a library, please report it", 1),
    ],
)
def test_what_is_said_of_an_error_that_ends_a_command(error: Exception, said: str, code: int) -> None:
    message, exit_code = main.error_report(error)
    assert said in message and exit_code == code


@pytest.mark.parametrize(
    ("words", "variable", "wanted"),
    [(["-v"], "", True), (["plan", "--verbose"], "", True), (["plan", "s"], "", False), (["plan"], "1", True), ([], "", False)],
)
def test_whose_traceback_is_printed(monkeypatch: pytest.MonkeyPatch, words: list[str], variable: str, wanted: bool) -> None:
    monkeypatch.setattr(sys, "argv", ["-v", *words])
    monkeypatch.setenv(TRACEBACK, variable)
    assert main._is_verbose() is wanted


def ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], app: object, *words: str) -> tuple[object, str]:
    """The exit code of the entry point in this very process, and what it says on standard error."""
    monkeypatch.setattr(main, "guard", lambda: None)
    monkeypatch.setattr(main, "command_line", lambda: app)
    monkeypatch.setattr(sys, "argv", ["qualm", *words])
    with pytest.raises(SystemExit) as caught:
        main.main()
    return caught.value.code, capsys.readouterr().err


def test_how_the_entry_point_ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def raising(error: BaseException) -> object:
        def app(**_: object) -> None:
            raise error

        return app

    wrong = [Problem(Position("s.yaml", line), "", "wrong") for line in (3, 4)]
    assert ended(monkeypatch, capsys, raising(SpecError(wrong[:1]))) == (2, "s.yaml:3:1: wrong\n1 problem\n")
    assert ended(monkeypatch, capsys, raising(SpecError(wrong))) == (2, "s.yaml:3:1: wrong\ns.yaml:4:1: wrong\n2 problems\n")
    assert ended(monkeypatch, capsys, raising(KeyboardInterrupt())) == (130, "interrupted\n")
    assert ended(monkeypatch, capsys, raising(ProjectError("not here"))) == (2, "qualm: not here\n")
    assert ended(monkeypatch, capsys, main.app, "-v")[0] == 2
    code, said = ended(monkeypatch, capsys, main.app, "no-such-command")
    assert code == 2 and said.startswith("Usage: ") and "No such command 'no-such-command'" in said and "qualm: " not in said


def test_a_fault_of_ours_is_one_line_and_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def app(**_: object) -> None:
        raise KeyError("x")

    (tmp_path / "specs").mkdir()
    (tmp_path / "params.yaml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(TRACEBACK, raising=False)
    code, said = ended(monkeypatch, capsys, app, "plan", "quickstart")
    (log,) = (tmp_path / ".qualm/logs").iterdir()
    message = "unexpected KeyError: 'x'; this is a fault of Qualm or of a library, please report it"
    assert (code, said) == (1, f"qualm: {message}; traceback in .qualm/logs/{log.name}\n") and log.name.startswith("qualm-plan-")
    assert "in app" in log.read_text()
    code, said = ended(monkeypatch, capsys, app, "plan", "-v")
    assert code == 1 and said.startswith("Traceback ") and said.splitlines()[-1].startswith("qualm: unexpected KeyError: 'x'; ")


def test_the_version_alone_and_with_those_of_the_libraries() -> None:
    assert qualm("--version").stdout == f"qualm {__version__}\n"
    done = qualm("--version", "-v")
    assert done.returncode == 0 and done.stdout.splitlines() == describe_versions()
