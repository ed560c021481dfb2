from types import SimpleNamespace

import pytest
import yaml

from qualm.compiler.project import new_spec
from qualm.compiler.project.new_spec import write_limited, write_new
from qualm.compiler.run.fetch import limited
from qualm.compiler.spec.errors import ProjectError
from tests.compiler.spec.resolving import resolve


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "specs").mkdir()
    monkeypatch.setattr(new_spec, "write_schema", lambda root: (root / "schema").write_text(""))
    return SimpleNamespace(root=tmp_path, specs=lambda: ["quickstart"])


def test_a_new_spec_resolves_and_says_what_comes_next(project):
    said = write_new(project, "mine", None)
    text = (project.root / "specs" / "mine.yaml").read_text()
    assert resolve(project.root, text, "mine").spec.name == "mine" and "qualm plan mine" in said and (project.root / "schema").exists()


def test_a_variant_extends_another(project):
    write_new(project, "mine", "quickstart")
    assert yaml.safe_load((project.root / "specs" / "mine.yaml").read_text()) == {
        "extends": "quickstart.yaml",
        "name": "mine",
        "title": "mine",
    }


@pytest.mark.parametrize(
    "name, extends, message",
    [
        ("a/b", None, "'a/b' is not a valid name for a spec"),
        ("x" * 65, None, "is not a valid name for a spec"),
        ("old", None, "specs/old.yaml exists; choose another name"),
        ("mine", "quickstrat", "no spec 'quickstrat'; did you mean 'quickstart'"),
    ],
)
def test_what_cannot_be_written(project, name, extends, message):
    old = project.root / "specs" / "old.yaml"
    old.write_text("kept")
    with pytest.raises(ProjectError) as error:
        write_new(project, name, extends)
    assert message in str(error.value) and list(old.parent.iterdir()) == [old] and old.read_text() == "kept"


def test_a_limited_variant_is_written_once(project, monkeypatch):
    """`qualm run SPEC --limit 20` leaves the spec alone; its variant may be edited."""
    monkeypatch.setattr(project, "resolve", lambda spec: SimpleNamespace(spec=SimpleNamespace(name="quickstart")), raising=False)
    parent = project.root / "specs" / "quickstart.yaml"
    parent.write_text("qualm: 1\nname: quickstart\ndatasets:\n  a: {card: x}\n  b: {card: y, limit: 10}\n")
    name = write_limited(project, None, 20)
    file = project.root / "specs" / f"{name}.yaml"
    written = yaml.safe_load(file.read_text())
    assert name == "quickstart-limit-20" and written["extends"] == "quickstart.yaml" and written["datasets"] == {"a": {"limit": 20}}
    file.write_text("edited")
    monkeypatch.setattr(project, "specs", lambda: ["quickstart", name])
    assert write_limited(project, "quickstart", 20) == name and file.read_text() == "edited"


def test_a_limit_above_all_datasets_leaves_them_alone(project, monkeypatch):
    monkeypatch.setattr(project, "resolve", lambda spec: SimpleNamespace(spec=SimpleNamespace(name="quickstart")), raising=False)
    (project.root / "specs" / "quickstart.yaml").write_text("qualm: 1\nname: quickstart\ndatasets:\n  b: {card: y, limit: 10}\n")
    written = yaml.safe_load((project.root / "specs" / f"{write_limited(project, None, 20)}.yaml").read_text())
    assert written["extends"] == "quickstart.yaml" and "datasets" not in written


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"limit": None}, {"limit": 20}),
        ({"limit": 10}, {"limit": 10}),
        ({"limit": {"unit": "pairs", "of": {"": 50}}}, {"limit": {"unit": "pairs", "of": {"": 20}}}),
        ({"limit": {"unit": "images", "of": {"test": 30, "val": 5}}}, {"limit": {"unit": "images", "of": {"test": 20, "val": 5}}}),
        ({"limit": None, "balance": {"take": 150, "by": "x"}}, {"limit": None, "balance": {"take": 10, "by": "x"}}),
    ],
)
def test_files_are_fetched_for_the_questions_that_a_limited_run_draws(params, expected):
    assert limited(params, 20) == expected
