"""Every benchmark that comes with the package can be the beginning of a project's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from qualm.compiler.project.checkout import Project
from qualm.compiler.project.new_project import write_project
from qualm.compiler.project.new_spec import write_new
from qualm.compiler.project.shipped import copy_shipped, renamed, shipped, shipped_names
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.places import PACKAGE


@pytest.fixture(scope="module")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new") / "bench"
    write_project(folder)
    return folder


@pytest.fixture
def project(new_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    shutil.copytree(new_project, tmp_path / "bench", symlinks=True)
    monkeypatch.chdir(tmp_path / "bench")
    return Project()


def test_a_wheel_holds_every_spec_of_the_repository() -> None:
    """What stands in `qualm/specs` is packed; it is links to specs/."""
    specs = {file.name for file in (PACKAGE / "specs").glob("*.yaml")}
    links = {file.name: file.resolve() for file in (PACKAGE / "qualm" / "specs").glob("*.yaml")}
    assert links == {name: PACKAGE / "specs" / name for name in specs}
    assert list(shipped()) == sorted(name.removesuffix(".yaml") for name in specs)
    assert all(shipped().values())


@pytest.mark.parametrize("source", shipped_names())
def test_a_copy_is_a_valid_spec_under_its_new_name(project: Project, source: str) -> None:
    text = write_new(project, "mine", None, source)
    assert project.resolve("mine").spec.name == "mine"
    assert text.startswith("wrote specs/mine.yaml")
    ours, mine = (
        yaml.load(file.read_bytes(), yaml.CSafeLoader) for file in (PACKAGE / "specs" / f"{source}.yaml", Path("specs/mine.yaml"))
    )
    assert mine == ours | {"name": "mine"}


def test_what_a_benchmark_names_comes_along_unless_it_is_there(project: Project) -> None:
    assert copy_shipped(project.root, "vlm_uqbench_scenes", "mine") == [Path("specs/mine.yaml"), Path("specs/scene_clip.yaml")]
    prompts = [Path("specs/prompts") / f"{name}.md" for name in ("ambiguity_zero_shot", "ambiguity_cot", "ambiguity_enumerate")]
    Path("specs/prompts").mkdir(exist_ok=True)
    prompts[1].write_text("Mine: {question}")
    others = [Path("specs/asked.yaml"), Path("specs/vlm_uqbench.yaml")]
    assert copy_shipped(project.root, "vlm_uqbench_ambiguity", "asked") == [*others, prompts[0], prompts[2]]
    assert prompts[1].read_text() == "Mine: {question}"
    assert copy_shipped(project.root, "vlm_uqbench_scenes", "again") == [Path("specs/again.yaml")]


def test_names_in_comments_and_commands() -> None:
    text = "# qualm data add a --from PATH\n# qualm run a\n#   qualm show a b\n# qualm run ab\nname: a\nmodels: {a: 1}\n"
    assert (
        renamed(text, "a", "x")
        == "# qualm data add a --from PATH\n# qualm run x\n#   qualm show x b\n# qualm run ab\nname: x\nmodels: {a: 1}\n"
    )
    assert renamed("# `qualm fetch a`, `qualm strength a -m b`", "a", "x") == "# `qualm fetch x`, `qualm strength x -m b`"


def test_what_cannot_be_copied(project: Project) -> None:
    with pytest.raises(ProjectError, match="no benchmark 'vlm_uqbnech' comes with Qualm; did you mean 'vlm_uqbench'"):
        write_new(project, "mine", None, "vlm_uqbnech")
    with pytest.raises(ProjectError, match="--extends and --from exclude each other"):
        write_new(project, "mine", "quickstart", "vlm_uqbench")
    assert not Path("specs/mine.yaml").exists()
