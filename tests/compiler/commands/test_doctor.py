"""`qualm doctor model`: what a name means, what is shown, exit codes."""

import json
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.doctor import app, find
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.versions import describe_versions
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.asking import picture, png, sample, write_samples
from tests.support.projects.tiny_project import write_dataset

SPEC = """\
qualm: 1
name: t
datasets: {bare: {card: synthetic_scenes, test: 2}, scenes: {card: synthetic_scenes, test: 10}}
models: {base: {hf_vlm: {artifact: tiny, dtype: bfloat16}}, old: {recorded: {source: answers, run: llava}}}
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def project(tiny, tmp_path, monkeypatch):
    """A checkout with one spec, one model and no data."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "t.yaml").write_text(SPEC)
    (tmp_path / "params.yaml").write_text("default: t\n")
    shutil.copytree(tiny, tmp_path / "registry" / "data" / "tiny")
    (tmp_path / "registry" / "data" / "far.dvc").write_text("outs: []\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUALM_DEVICE", "cpu")
    return Project()


def doctor(*arguments):
    return CliRunner().invoke(app, ["model", *arguments])


@pytest.mark.slow
def test_json(project):
    done = doctor("tiny", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["verdict"], report["dtype"]) == ("ok", "float32")
    by_check = {f["check"]: f for f in report["findings"]}
    assert by_check["log-probabilities"]["numbers"]["worst"] < 1e-4
    assert by_check["prompt"]["numbers"]["prompt"].startswith("USER: <image>\n")
    assert report["versions"] == describe_versions()
    assert set(by_check["files"]) == {"check", "verdict", "found", "tolerance", "advice", "numbers"}


@pytest.mark.slow
def test_a_failure_is_exit_code_1_and_says_what_to_do(project):
    shutil.copytree("registry/data/tiny", "ill")
    text = Path("ill/tokenizer.json").read_text()
    Path("ill/tokenizer.json").write_text(text.replace('"C":', '"CCC":'))
    done = doctor("ill")
    assert done.exit_code == 1
    assert "fail  option letters: model 'ill': option letter C is not a single known token" in done.stdout
    assert done.stdout.startswith("\n".join(describe_versions()))
    assert "ill as float32: fail" in done.stdout and "speed and memory" not in done.stdout


@pytest.mark.slow
def test_questions_of_a_spec(project):
    with pytest.raises(ProjectError, match="t: none of its datasets is built; `qualm run t` or `dvc pull` brings them"):
        CliRunner().invoke(app, ["model", "tiny", "--spec", "t"], catch_exceptions=False)
    folders = project.root / "results" / "t" / "data"
    write_samples(folders / "bare", [sample("b", '["i", "j"]', "?")], {name: png(picture(1)) for name in "ij"})
    with pytest.raises(ProjectError, match=r"data/bare: every sample has several images; name a spec"):
        CliRunner().invoke(app, ["model", "tiny", "--spec", "t"], catch_exceptions=False)
    write_dataset(folders / "scenes", 8, False)
    done = doctor("t:base", "--spec", "t", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert "What color is the" in next(f["found"] for f in report["findings"] if f["check"] == "prompt")


def test_what_a_name_means(project):
    root = project.root
    assert find(project, "tiny", None, {}).folder == root / "registry" / "data" / "tiny"
    assert find(project, str(root / "registry"), None, {}).folder == root / "registry"
    with chdir("specs"):
        assert find(Project(), "t:base", None, {}).folder == root / "registry" / "data" / "tiny"  # from anywhere within the checkout
    made = find(project, "t:base", None, {"dtype": "float32"})
    assert (made.plugin, made.folder, made.args["dtype"]) == ("hf_vlm", root / "registry" / "data" / "tiny", "float32")
    assert find(project, "owner/model", "0" * 40, {}).args == {"hub": "owner/model", "revision": "0" * 40}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("far", "registry/data/far is not here yet; `dvc pull registry/data/far.dvc` brings it"),
        ("t:bace", "t has no model 'bace'; did you mean 'base'?"),
        ("owner/model", "there is no such folder, and of the hub: "),
        ("nothing", "expected a folder, an entry of registry/data/, SPEC:MODEL, or OWNER/NAME"),
    ],
)
def test_names_that_mean_nothing(project, name, message):
    with pytest.raises(ProjectError) as caught:
        find(project, name, None, {})
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["tiny", "./registry/data/tiny", "far", "t:base"])
def test_only_a_model_of_the_hub_has_revisions(project, name):
    with pytest.raises(ProjectError, match=f"{name} is not a model of the hub, so it has no revisions; leave out --revision"):
        find(project, name, "v2", {})


def test_a_recording_has_no_weights(project):
    with pytest.raises(ProjectError, match="t:old is a model of recorded, which has no dtype"):
        find(project, "t:old", None, {"dtype": "float32"})


def test_a_template_that_cannot_be_read(project):
    with pytest.raises(ProjectError, match="expected a Jinja chat template"):
        CliRunner().invoke(app, ["model", "tiny", "--template", "nowhere.jinja"], catch_exceptions=False)
