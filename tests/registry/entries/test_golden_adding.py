"""What `qualm data add` does with a model's files as they come, held to tests/golden/adding.json.

After a change that is meant: HELD=write pytest tests/registry/entries/test_golden_adding.py
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from qualm.registry.entries.adding import AddError, add
from qualm.registry.entries.card import load_card
from tests.support.checks.held_numbers import held

Change = Callable[[Path], None]


def files(folder: Path) -> None:
    """Those of the card `transformers_model`."""
    folder.mkdir(parents=True)
    save_file({"w": np.arange(6, dtype=np.float32)}, folder / "model.safetensors")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text(json.dumps({"of": name}))
    (folder / "chat_template.jinja").write_text("<b>{{ messages }}</b>\n")


def written(name: str, content: str | bytes) -> Change:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def several(*changes: Change) -> Change:
    def change(folder: Path) -> None:
        for each in changes:
            each(folder)

    return change


def moved(folder: Path, to: Path) -> None:
    paths = list(folder.iterdir())
    to.mkdir()
    for path in paths:
        path.rename(to / path.name)


FOLDERS: dict[str, Change] = {
    "as they should be": lambda folder: None,
    "others beside": several(written("notes.txt", "mine"), written("old/config.json", "{}"), written(".git/config", "x")),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "weights cut short": lambda folder: written("model.safetensors", (folder / "model.safetensors").read_bytes()[:-4])(folder),
    "weights of another kind": written("model.safetensors", b"PK\x03\x04"),
    "a web page": written("tokenizer.json", "<!DOCTYPE html><html><body>404</body></html>"),
    "a pointer": written("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"),
    "nothing in it": written("config.json", ""),
    "JSON that ends": written("config.json", '{"a": [1, 2'),
    "no text": written("merges.txt", b"\xff\xfe\x00\x81"),
    "a link": lambda folder: (folder / "vocab.json").symlink_to("/etc/hostname"),
    "a folder of that name": lambda folder: (folder / "vocab.json").mkdir(),
    "much at once": several(written("config.json", ""), written("vocab.json", "<html>"), written("merges.txt", b"\x00"), written("x", "")),
    "everything one folder down": lambda folder: moved(folder, folder / "m"),
    "no files": lambda folder: moved(folder, folder.parent / "elsewhere"),
}
ARCHIVES = {
    "as they should be": "{}",
    "in one folder": "model-main/{}",
    "two folders down": "a/b/{}",
    "beside another folder": "a/{}",
    "a way out": "../{}",
}
MODEL = load_card("transformers_model")


def outcome(repo: Path, source: Path, skip_bad: bool, home: Path) -> list[object]:
    """What came of it, in words that name no folder of this machine; what the project then holds, and which steps were told."""
    steps: list[tuple[object, ...]] = []
    try:
        added = add(repo, "m", str(source), MODEL, skip_bad=skip_bad, progress=lambda *step: steps.append(step))
    except AddError as error:
        problems = [_plain(line, home) for line in error.problems]
        assert not (repo / "registry/data").exists(), "nothing is added of what is refused"
        return ["refused", problems, error.excusable]
    there = sorted(p.relative_to(added.entry.path).as_posix() for p in added.entry.path.rglob("*") if p.is_file())
    record = (repo / "registry/data/m.dvc").read_text(), (repo / "registry/data/.gitignore").read_text()
    assert there == list(added.inspection.files)
    skipped = [_plain(line, home) for line in added.inspection.skipped]
    return [added.outcome, added.inspection.files, skipped, added.inspection.left_out, *record, steps]


def _plain(line: str, home: Path) -> str:
    """Without the folder and what the library says of broken weights, which changes from release to release."""
    return re.sub(r"\(Error while [^()]*(\([^()]*\))?[^()]*\)", "(...)", line.replace(str(home), "~"))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_taken_or_refused_as_ever(name: str, repo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    files(folder)
    FOLDERS[name](folder)
    held("adding.json", f"folder: {name}", outcome(repo, folder, False, tmp_path))


@pytest.mark.parametrize("name", ["a web page", "weights cut short", "much at once"])
def test_what_is_bad_is_left_out_as_ever(name: str, repo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    files(folder)
    FOLDERS[name](folder)
    held("adding.json", f"without the bad: {name}", outcome(repo, folder, True, tmp_path))


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_taken_or_refused_as_ever(name: str, repo: Path, tmp_path: Path) -> None:
    folder, path = tmp_path / "model", tmp_path / "model.zip"
    files(folder)
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, ARCHIVES[name].format(file.name))
        archive.writestr(ARCHIVES[name].format("notes.txt"), "mine")
        if name == "beside another folder":
            archive.writestr("other/x.txt", "theirs")
    held("adding.json", f"archive: {name}", outcome(repo, path, False, tmp_path))


@pytest.mark.parametrize("content", [{}, {"a.txt": "x", "deep/b.txt": "y"}], ids=["empty", "something else"])
def test_an_archive_of_nothing_that_is_named_says_what_it_has(content: dict[str, str], repo: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    held("adding.json", f"archive of {len(content)} other files", outcome(repo, path, False, tmp_path))
