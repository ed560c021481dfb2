"""A project: found from any folder in it, its specs by name or path, what they compile to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from qualm.compiler.project import checkout
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError, SpecError

SPEC = """\
qualm: 1
name: {name}
datasets:
  scenes: {{card: synthetic_scenes, train: 5, test: 5, evaluate: true}}
models:
  base: {{hf_vlm: {{artifact: {artifact}}}}}
finetunes:
  tuned: {{sft: {{base: base, train: [scenes]}}}}
judges: [rules]
metrics: [accuracy]
"""


def write(root: Path, name: str, artifact: str = "x") -> None:
    (root / f"specs/{name}.yaml").write_text(SPEC.format(name=name, artifact=artifact))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    (tmp_path / "specs").mkdir()
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "params.yaml").write_text("default: b\nseed: 11\n")
    for name in ("b", "a", "c"):
        write(tmp_path, name)
    monkeypatch.chdir(tmp_path / "deep/er")
    return Project()


def test_it_is_found_from_within(project: Project, tmp_path: Path) -> None:
    assert project.root == tmp_path == Project(tmp_path / "deep").root


def test_no_project(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path_factory.mktemp("bare")
    monkeypatch.chdir(bare)
    for start in (None, bare):
        with pytest.raises(ProjectError, match=f"^{bare}: no params.yaml and specs/ here or above; .* by `qualm init NAME`"):
            Project(start)


@pytest.mark.parametrize(("name", "works"), [("a#b", True), ("a b", True), ("a{x}", False), ("a}", False)])
def test_a_path_that_dvc_cannot_hold_is_refused(tmp_path: Path, name: str, works: bool) -> None:
    (tmp_path / name / "specs").mkdir(parents=True)
    (tmp_path / name / "params.yaml").touch()
    if works:
        assert Project(tmp_path / name).root == tmp_path / name
    else:
        with pytest.raises(ProjectError, match=r"DVC fails in a folder whose path has a '\{' or '\}'; rename it, or move the project"):
            Project(tmp_path / name)


def test_its_specs(project: Project) -> None:
    assert project.specs() == ["a", "b", "c"]
    assert project.has_spec("a") and project.has_spec("x.yaml") and project.has_spec("x.yml")
    assert not project.has_spec("x") and not project.has_spec(None) and not project.has_spec("a.yamlx")


def test_a_spec_by_name_path_or_default(project: Project, tmp_path: Path) -> None:
    assert project.spec_path("a") == tmp_path / "specs/a.yaml" and project.spec_path(None) == tmp_path / "specs/b.yaml"
    assert (
        project.spec_path("one.yaml") == tmp_path / "deep/er/one.yaml" and project.spec_path("x/one.yml") == tmp_path / "deep/er/x/one.yml"
    )
    assert project.spec_path("/far/one.yaml") == Path("/far/one.yaml")


@pytest.mark.parametrize(("name", "hint"), [("bb", "did you mean 'b'?"), ("zzz", "there are: a, b, c")])
def test_no_such_spec(project: Project, name: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        project.spec_path(name)
    assert str(caught.value) == f"specs/{name}.yaml:1:1: there is no such spec ({hint})"


def test_a_name_that_leads_elsewhere_is_no_spec(project: Project, tmp_path: Path) -> None:
    write(tmp_path, "../outside")
    with pytest.raises(SpecError, match="there is no such spec"):
        project.spec_path("../outside")
    (tmp_path / "specs/dangling.yaml").symlink_to(tmp_path / "gone.yaml")
    assert project.spec_path("dangling") == tmp_path / "specs/dangling.yaml"  # reading it says what is wrong


def test_params_yaml_is_read_once_and_settings_have_mistakes(project: Project, tmp_path: Path) -> None:
    assert (project.run_wide.default, project.run_wide.seed) == ("b", 11)
    (tmp_path / "params.yaml").write_text("default: a\n")
    assert project.run_wide.default == "b" and Project().run_wide.default == "a"
    (tmp_path / "qualm.toml").write_text("batch_size = 3\n")
    assert project.settings.batch_size == 3
    (tmp_path / "qualm.toml").write_text("batch_size = -3\n")
    with pytest.raises(ProjectError, match=r"batch_size: expected a whole number at least 0 .*, got -3"):
        _ = project.settings


def test_seeds_of_params_yaml_reach_the_plan(project: Project) -> None:
    plan = project.plan()
    assert plan.spec == "b" and {stage.seed for stage in plan.stages} == {0, 11} and project.resolve("a").spec.name == "a"


def test_specs_whose_models_are_read_come_before(project: Project, tmp_path: Path) -> None:
    write(tmp_path, "a", '"b:tuned"')
    write(tmp_path, "b", '"c:tuned"')
    write(tmp_path, "d", '"c:tuned"')
    assert [plan.spec for plan in project.before(project.plan("a"))] == ["c", "b"]
    assert [plan.spec for plan in project.before(project.plan("d"))] == ["c"]
    assert project.before(project.plan("c")) == []


def test_compiling_writes_once(project: Project, tmp_path: Path) -> None:
    would = project.compile(check=True)
    assert "dvc.yaml" in would.written and not (tmp_path / "dvc.yaml").exists() and not (tmp_path / "specs/spec.schema.json").exists()
    done = project.compile()
    assert done.written == would.written and (tmp_path / "specs/spec.schema.json").is_file() and (tmp_path / "dvc.yaml").is_file()
    again = project.compile()
    assert again.written == [] and again.unchanged == len(done.written)


def test_a_spec_that_nobody_compiled_leaves_no_files_and_is_checked(project: Project, tmp_path: Path) -> None:
    project.compile(["a"])
    (tmp_path / "specs/a/dvc.yaml").write_text("# Compiled from specs/a.yaml by `qualm compile`.")
    assert [plan.spec for plan in project.compile().plans] == ["a", "b"]
    assert (tmp_path / "dvc.yaml").is_file() and not (tmp_path / "specs/c").exists()
    assert "data-scenes" in (tmp_path / "specs/a/dvc.yaml").read_text()
    assert not project.compile(check=True)
    (tmp_path / "specs/c.yaml").write_text("qualm: 1\n")
    with pytest.raises(SpecError):
        project.compile(check=True)
    assert not project.compile()


def test_some_specs_alone_are_compiled_without_what_all_share(project: Project, tmp_path: Path) -> None:
    changes = project.compile(["a"])
    assert {path.split("/")[1] for path in changes.written if path.startswith("specs/")} == {"a", "run.py"}
    assert not (tmp_path / "specs/spec.schema.json").exists()
    assert not (tmp_path / ".dvc/plots").exists() and changes.leftovers == []
    (tmp_path / "specs/a.yaml").unlink()
    assert [left.spec for left in project.compile().leftovers] == ["a"]
    assert project.compile(["b"]).leftovers == []


def test_mistakes_of_all_specs_at_once(project: Project, tmp_path: Path) -> None:
    for name in ("a", "c"):
        (tmp_path / f"specs/{name}.yaml").write_text(SPEC.format(name=name, artifact="x").replace("[accuracy]", "[acuracy]"))
    with pytest.raises(SpecError) as caught:
        project.compile(check=True)
    assert [problem.mark.file for problem in caught.value.problems] == ["specs/a.yaml", "specs/c.yaml"]
    assert "[acuracy]" in caught.value.render() and not (tmp_path / "specs/b").exists()


def test_stages_find_this_python(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    assert project.environment["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"
    assert project.environment["DVC_NO_ANALYTICS"] == "true"
    monkeypatch.delenv("PATH")
    assert project.environment["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}"


def test_stages_find_python3_on_windows(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment of Windows has `python.exe` only, and every stage is `python3 specs/run.py ...`."""
    monkeypatch.setattr(checkout, "WINDOWS", True)
    monkeypatch.setattr(sys, "executable", r"C:\Users\100%\env\Scripts\python.exe")
    folder = Path(project.environment["PATH"].partition(os.pathsep)[0])
    assert folder.is_relative_to(project.root / ".qualm")
    assert (folder / "python3.cmd").read_bytes() == b'@"C:\\Users\\100%%\\env\\Scripts\\python.exe" %*\r\n'


def test_specs_that_differ_in_case_alone_are_met(project: Project, tmp_path: Path) -> None:
    (tmp_path / "specs/A.yaml").write_text(SPEC.format(name="A", artifact="scene-vlm-base"))
    with pytest.raises(SpecError, match=r"specs/a\.yaml:1:1: macOS and Windows cannot tell its files from those of specs/A\.yaml"):
        project.compile(check=True)
