"""The command line: exit codes, JSON for machines, no traceback whatever the input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def qualm(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "compiler", *arguments], cwd=cwd, capture_output=True, text=True, check=False)


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


@pytest.mark.parametrize("spec", sorted(p.stem for p in (ROOT / "specs").glob("*.yaml")))
def test_our_own_specs_are_valid(spec: str) -> None:
    done = qualm("validate", spec, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"]


def test_compiled_files_are_in_step() -> None:
    done = qualm("compile", "--check")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x01\x02", b"caf\xe9: 1", b"a: [1, 2", b"- just\n- a list\n", b"text", b"a:\n\t- b\n", b"x: &a [*a]", b"{}", b"qualm: 1\n"],
)
def test_bad_files_give_one_message_and_exit_2(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    done = qualm("validate", str(path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"{path}:" in done.stderr or "bad.yaml:" in done.stderr


def test_problems_as_json(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("qualm: 1\nname: bad\ndatasets: {a: {card: synthetic_scenes, tets: 1}}\n")
    done = qualm("validate", str(path), "--json")
    assert done.returncode == 2
    (problem,) = json.loads(done.stdout)["problems"]
    assert (problem["line"], problem["path"], problem["hint"]) == (3, "datasets.a.tets", "did you mean 'test'?")


def test_a_damaged_lock_is_one_message(tmp_path: Path) -> None:
    from tests.end_to_end.clone import make_clone

    clone = make_clone(tmp_path / "clone", "quickstart")
    (clone.root / "dvc.lock").write_text("schema: '2.0'\nstages: [\n")
    done = clone.qualm("plan", check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "dvc.lock: not YAML" in done.stderr


def test_an_unknown_spec_names_the_nearest() -> None:
    done = qualm("plan", "quikstart")
    assert done.returncode == 2
    assert "did you mean 'quickstart'?" in done.stderr


def test_outside_of_a_checkout(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); from compiler.cli import main; sys.argv = ['qualm', 'plan']; main()",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "change into a checkout" in done.stderr


def test_plugins_are_listed_and_explained() -> None:
    listed = json.loads(qualm("ls", "metrics", "--json").stdout)
    assert {"ece", "accuracy", "auroc"} <= {p["name"] for p in listed}
    assert all(p["help"] for p in listed), "every plugin has help"
    text = qualm("ls", "metrics", "ece").stdout
    assert "  bins: " in text
    assert "HIGHER_IS_BETTER" in text
    missing = qualm("ls", "metrics", "ecee")
    assert missing.returncode == 2
    assert "did you mean 'ece'?" in missing.stderr


@pytest.mark.parametrize(("form", "start"), [("mermaid", "flowchart LR"), ("dot", "digraph"), ("svg", "<svg")])
def test_graphs(form: str, start: str) -> None:
    done = qualm("graph", "quickstart", "--format", form)
    assert done.returncode == 0
    assert done.stdout.startswith(start)
    assert "infer x 2" in done.stdout


def test_the_svg_graph_is_well_formed() -> None:
    from xml.etree import ElementTree

    ElementTree.fromstring(qualm("graph", "quickstart", "--format", "svg", "--full").stdout)


def test_schema_knows_plugins_and_their_parameters() -> None:
    import jsonschema
    import yaml

    schema = json.loads(qualm("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for path in sorted((ROOT / "specs").glob("*.yaml")):
        errors = [e.message for e in validator.iter_errors(yaml.safe_load(path.read_text()))]
        assert not errors, (path.name, errors)
    good = yaml.safe_load((ROOT / "specs/quickstart.yaml").read_text())
    assert list(validator.iter_errors({**good, "metrics": [{"ece": {"bins": "many"}}]}))
    assert list(validator.iter_errors({**good, "metrics": ["no_such_metric"]}))
    assert list(validator.iter_errors({**good, "models": {"m": {"hf_vml": {}}}}))


def test_new_writes_a_valid_spec(tmp_path: Path) -> None:
    from tests.end_to_end.clone import make_clone

    clone = make_clone(tmp_path / "clone", "quickstart")
    for arguments in (["fresh"], ["variant", "--extends", "quickstart"]):
        assert "qualm validate" in clone.qualm("new", *arguments).stdout
        assert json.loads(clone.qualm("validate", arguments[0], "--json").stdout)["ok"]
    assert clone.qualm("new", "fresh", check=False).returncode == 2
    assert clone.qualm("new", "../x", check=False).returncode == 2


def test_diff_against_a_revision(tmp_path: Path) -> None:
    from tests.end_to_end.clone import make_clone

    clone = make_clone(tmp_path / "clone", "quickstart")
    clone.run("git", "add", "-A")
    clone.run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "compiled")
    assert "no difference" in clone.qualm("diff").stdout
    spec = clone.root / "specs/quickstart.yaml"
    spec.write_text(spec.read_text().replace("examples: 48", "examples: 12"))
    found = json.loads(clone.qualm("diff", "HEAD", "--json").stdout)
    assert {"stage": "report", "change": "parameter examples: 48 -> 12"} in found["parameters"]
    assert any(line.startswith("+report") for line in found["spec_diff"])
    assert clone.qualm("diff", "no-such-revision", check=False).returncode == 2
