"""Where DVC is not asked, it would have found nothing to do: held against DVC itself, over all that may be amiss."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import yaml

from qualm.compiler.forecast.in_order import at_work
from qualm.compiler.forecast.rebuilds import forecast_run
from qualm.compiler.plan.emit import MARKER, write
from qualm.compiler.project.checkout import Project
from qualm.registry.dvc.state import listing, object_path, read_lock

SPEC = """\
qualm: 1
name: mine
datasets: {scenes: {card: synthetic_scenes, test: 6}}
models: {m: {hf_vlm: {artifact: m}}}
judges: [rules]
metrics: [accuracy]
"""
DATA = "results/mine/data/scenes"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose stages have run, as far as DVC knows: their outputs are there and committed."""
    from dvc.repo import Repo

    root = tmp_path_factory.mktemp("in_order")
    for folder in ("specs", "registry/data/m"):
        (root / folder).mkdir(parents=True)
    for name, text in {"params.yaml": "default: mine\n", "specs/mine.yaml": SPEC}.items():
        (root / name).write_text(text)
    for name in ("config.json", "chat_template.jinja", "processor_config.json", "tokenizer.json", "model.safetensors"):
        (root / "registry/data/m" / name).write_text("{}")
    project = Project(root)
    plan = project.plan()
    write(root, [plan], "mine")
    for stage in plan.stages:
        for out in stage.outs:
            place = root / out / "samples.parquet" if out == DATA else root / out
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(out)
    (root / plan.marker).write_text(MARKER)
    (root / ".dvcignore").write_text(".qualm/\n")
    with chdir(root), Repo.init(str(root), no_scm=True) as repo:
        repo.add([str(root / "registry/data/m")])
        repo.commit("dvc.yaml", force=True)
    return root


@pytest.fixture
def root(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "project", symlinks=True))


def open_stages(root: Path) -> set[str]:
    """The stages that DVC is asked about."""
    project = Project(root)
    plan = project.plan()
    write(root, [plan], "mine")
    return {stage.name for stage in plan.stages} - forecast_run(plan, root, "mine")[1]


def dvc_status(root: Path) -> dict[str, Any]:
    from dvc.repo import Repo

    with chdir(root), Repo(str(root)) as repo:
        status: dict[str, Any] = repo.status(targets=["dvc.yaml"], with_deps=True)
        return status


def cached(root: Path, path: str) -> Path:
    outs = {out["path"]: out["md5"] for entry in read_lock(root / "dvc.lock").values() for out in entry["outs"]}
    return object_path(root / ".dvc/cache", outs[path])


def member(root: Path) -> Path:
    folder = cached(root, DATA)
    return object_path(root / ".dvc/cache", (listing(root / ".dvc/cache", folder.parent.name + folder.name) or {})["samples.parquet"])


def replace(file: Path, text: str) -> None:
    file.unlink()  # a link to the cache, maybe
    file.write_text(text)


def edit_yaml(file: Path, change: Callable[[Any], None]) -> None:
    content = yaml.safe_load(file.read_text())
    change(content)
    replace(file, yaml.safe_dump(content))


def other_model(root: Path) -> None:
    replace(root / "registry/data/m/config.json", '{"a": 1}')


def pointer_of_another(root: Path) -> None:
    edit_yaml(root / "registry/data/m.dvc", lambda content: content["outs"][0].update(md5="0" * 32 + ".dir"))


AMISS: dict[str, Callable[[Path], Any]] = {
    "a parameter": lambda root: (root / "specs/mine.yaml").write_text(SPEC.replace("test: 6", "test: 7")),
    "an output by hand": lambda root: replace(root / "results/mine/report.html", "other"),
    "no output": lambda root: (root / "results/mine/scores.parquet").unlink(),
    "an output in git by hand": lambda root: replace(root / "results/mine/metrics.json", "{}"),
    "a file more in a folder": lambda root: (root / DATA / "more").write_text(""),
    "other data": other_model,
    "a .dvc file of other data": pointer_of_another,
    "an object that the cache lacks": lambda root: cached(root, "results/mine/report.html").unlink(),
    "a list that the cache lacks": lambda root: cached(root, DATA).unlink(),
    "a file of a folder that the cache lacks": lambda root: member(root).unlink(),
    "data that the cache lacks": lambda root: [path.unlink() for path in (root / ".dvc/cache/files/md5/99").glob("*")],
    "no entry in the lock": lambda root: edit_yaml(root / "dvc.lock", lambda content: content["stages"].pop("report")),
    "another hash in the lock": lambda root: edit_yaml(
        root / "dvc.lock", lambda content: content["stages"]["report"]["outs"][0].update(md5="0" * 32)
    ),
}


def test_where_all_is_in_order_dvc_has_nothing_to_do(root: Path) -> None:
    """Data with a description and with what `qualm data add` notes beside it, too."""
    pointer = root / "registry/data/m.dvc"
    pointer.write_text(yaml.safe_dump(yaml.safe_load(pointer.read_text()) | {"desc": "A model", "meta": {"qualm": {"card": "m"}}}))
    assert not open_stages(root) and dvc_status(root) == {}
    assert not open_stages(root), "nor after DVC has looked, whose note of who is at work is then there"


@pytest.mark.parametrize("amiss", AMISS)
def test_what_dvc_would_mend_is_not_in_order(root: Path, amiss: str) -> None:
    assert (root / ".dvc/cache/files/md5/99/914b932bd37a50b983c5e7c90ae93b").is_file()  # {}, the model's only file
    AMISS[amiss](root)
    stages = open_stages(root)  # compiles too
    # Beside stages at which there is something to do DVC names `.dvc` files, of whose data any stage may read.
    assert dvc_status(root) != {} and {name for name in dvc_status(root) if not name.endswith(".dvc")} - {"spec"} <= stages != set()


def writable(root: Path) -> None:
    """DVC reads such an object before it takes it for whole."""
    cached(root, "results/mine/report.html").chmod(0o644)


def of_an_older_dvc(root: Path) -> None:
    edit_yaml(root / "dvc.lock", lambda content: content["stages"]["report"]["outs"][0].pop("hash"))


def imported(root: Path) -> None:
    edit_yaml(root / "registry/data/m.dvc", lambda content: content.update(deps=[{"path": "/elsewhere"}]))


def held(root: Path) -> None:
    (root / ".dvc/tmp").mkdir(exist_ok=True)
    (root / ".dvc/tmp/rwlock").write_text(json.dumps({"write": {"results/mine/x": {"pid": 1, "cmd": "dvc repro"}}}))


@pytest.mark.parametrize("doubtful", [writable, of_an_older_dvc, imported, held], ids=lambda d: d.__name__)
def test_what_is_doubtful_is_left_to_dvc(root: Path, doubtful: Callable[[Path], None]) -> None:
    doubtful(root)
    assert open_stages(root)


@pytest.mark.parametrize(
    ("note", "busy"),
    [
        (None, False),
        ("{}", False),
        ('{"write": {}}', False),
        ('{"read": {}, "write": {}}', False),
        ('{"read": {"a": [{"pid": 1, "cmd": "x"}]}}', True),
        ("half", True),
        ("[]", True),
    ],
)
def test_who_is_at_work(tmp_path: Path, note: str | None, busy: bool) -> None:
    if note is not None:
        (tmp_path / ".dvc/tmp").mkdir(parents=True)
        (tmp_path / ".dvc/tmp/rwlock").write_text(note)
    assert at_work(tmp_path) is busy
