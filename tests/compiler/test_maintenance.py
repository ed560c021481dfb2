"""What CONTRIBUTING.md names can be typed and opened; versions agree; hooks, workflows and the check of subjects work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from qualm import __version__

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_targets_of_make_are_there() -> None:
    workflows = "".join(file.read_text(encoding="utf-8") for file in (ROOT / ".github/workflows").iterdir())
    assert set(re.findall(r"\bmake ([a-z][a-z-]+)", CONTRIBUTING + workflows)) <= targets()


def test_scripts_and_folders_are_there() -> None:
    names = re.findall(r"(?<![\w/])(?:\.ci|compiler|registry|runners|tests|results|specs)/[\w./-]+", CONTRIBUTING)
    concrete = [name for name in names if not re.search(r"NAME|KIND|/(?:test_)?x\.py", name)]
    assert [name for name in concrete if not (ROOT / name).exists()] == []
    placeholders = [name for name in names if "NAME" in name and "KIND" not in name]
    assert [name for name in placeholders if not (ROOT / name).parents[1].is_dir()] == [], "a kind's own folder may be empty here"


def test_modules_that_are_run_are_there() -> None:
    modules = re.findall(r"python -m ([\w.]+)", CONTRIBUTING)
    assert [m for m in modules if not (ROOT / f"{m.replace('.', '/')}.py").is_file() and not (ROOT / m.replace(".", "/")).is_dir()] == []


def test_versions_agree() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == __version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {__version__} (" in changelog


def test_papers_that_are_cited_are_those_of_the_bibliography() -> None:
    bibliography = (ROOT / "registry/entries/references.bib").read_text(encoding="utf-8").replace("{", "").replace("}", "")
    for paper in yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]:
        entry = bibliography[bibliography.index(paper["title"]) :].partition("\n@")[0]
        authors = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
        assert f"author={authors}" in entry and ("year" in paper) == ("year=" in entry)


def test_hooks_are_local_and_their_programs_are_there() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        program = hook["entry"].split()[0]
        assert program.startswith(".venv/bin/") or (ROOT / program).is_file()


@pytest.mark.parametrize("subject, code", [("x" * 72, 0), ("x" * 73, 1), ("# " + "a comment of git's " * 9 + "\nShort", 0)])
def test_long_subjects_are_refused(tmp_path: Path, subject: str, code: int) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(f"{subject}\n\n{'a body as long as one likes ' * 9}\n", encoding="utf-8")
    assert subprocess.run([ROOT / ".ci/subjects", message], capture_output=True, check=False).returncode == code


def test_subjects_of_a_range_are_checked(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("commit", "--allow-empty", "-m", "y" * 80)
    for subject in ("fine", "z" * 73):
        git("commit", "--allow-empty", "-m", subject)
    checked = subprocess.run([ROOT / ".ci/subjects", "HEAD~2..HEAD"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 1 and "z" * 73 in checked.stderr and "y" * 80 not in checked.stderr


STANDIN = """#!/usr/bin/env bash
printf '%s' "$(basename "$0")" >>"$CALLS"; printf ' <%s>' "$@" >>"$CALLS"; echo >>"$CALLS"
case "$(basename "$0") $*" in
    qualm*) echo "<!-- qualm diff $2 -->" ;;
    *paginate*second*) echo 41; echo 42 ;;
    dvc*) exit 1 ;;
esac
"""


@pytest.mark.parametrize("pull", ["true", "false"])
def test_the_action_writes_a_comment_for_each_spec_or_replaces_its_last(tmp_path: Path, pull: str) -> None:
    folder = ROOT / ".github/actions/results"
    action = yaml.safe_load((folder / "action.yml").read_text(encoding="utf-8"))
    (step,) = action["runs"]["steps"]
    asked = {name for value in step["env"].values() for name in re.findall(r"inputs\.(\w+)", value)}
    assert asked == set(action["inputs"]) and step["run"] == '"$GITHUB_ACTION_PATH/comment"'
    for program in ("qualm", "dvc", "gh"):
        (tmp_path / program).write_text(STANDIN)
        (tmp_path / program).chmod(0o755)
    (tmp_path / "specs/second").mkdir(parents=True)
    (tmp_path / "specs/second/dvc.yaml").touch()
    values = {"QUALM_SPECS": "first second", "QUALM_BASE": "abc", "QUALM_PULL": pull, "PULL_REQUEST": "7", "GITHUB_REPOSITORY": "lab/bench"}
    assert values.keys() - {"GITHUB_REPOSITORY"} <= step["env"].keys()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CALLS": str(tmp_path / "calls"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = subprocess.run([folder / "comment"], cwd=tmp_path, env=environment | values, capture_output=True, text=True, check=True)
    calls = [line.split(" <")[0:1] + re.findall("<(.*?)>(?= <|$)", line) for line in (tmp_path / "calls").read_text().splitlines()]
    kept = [call for call in calls if call[0] == "dvc"]
    assert [call[-1] for call in kept] == (["dvc.yaml", "specs/second/dvc.yaml"] if pull == "true" else [])
    assert done.stdout.count("::warning::") == len(kept)
    flags = ["--markdown", *(["--pull"] if pull == "true" else [])]
    assert [call[1:] for call in calls if call[0] == "qualm"] == [["diff", spec, "abc", *flags] for spec in ("first", "second")]
    written = [call[3:5] for call in calls if call[0] == "gh" and "--silent" in call]
    assert written == [["--method", "POST"], ["--method", "PATCH"]]
    assert "repos/lab/bench/issues/comments/42" in next(call for call in calls if "PATCH" in call)
    assert (tmp_path / "summary").read_text() == "<!-- qualm diff first -->\n<!-- qualm diff second -->\n"
