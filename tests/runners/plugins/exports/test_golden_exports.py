"""Every file that an export of answers or results writes, held to tests/golden/exports.json by its text or a digest of it.

After a change that is meant: HELD=write pytest tests/runners/plugins/exports/test_golden_exports.py
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest

from qualm.registry.plugins import registry
from qualm.runners.plugins.exports import ExportError
from tests.runners.plugins.exports import test_results as results
from tests.support.checks.held_numbers import held
from tests.support.projects import exported

ANSWERS = ("eval_results", "every_eval_ever", "hf", "inspect", "lm_eval", "lmms_eval", "vlmevalkit")
WRITTEN = "docProps/core.xml"
"""When a workbook was written."""
RESULTS = ("csv", "latex", "markdown")


def settings_of(plugin: registry.Plugin) -> list[tuple[str, dict[str, Any]]]:
    """No option given, and each choice or flag once at each other value."""
    settings: list[tuple[str, dict[str, Any]]] = [("default", {})]
    for parameter in plugin.parameters:
        choices = get_args(parameter.annotation) if "Literal" in parameter.text else ()
        choices = (True, False) if isinstance(parameter.default, bool) else (1, 4) if isinstance(parameter.default, int) else choices
        settings += [(f"{parameter.name}={value}", {parameter.name: value}) for value in choices if value != parameter.default]
    return settings


def text_of(path: Path) -> str:
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pylist(), default=repr, ensure_ascii=False)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return "\n".join(f"{name}: {archive.read(name)!r}" for name in archive.namelist() if name != WRITTEN)
    return path.read_bytes().decode("utf-8", errors="backslashreplace")


def files(folder: Path, hidden: tuple[Path, ...]) -> dict[str, Any]:
    """Texts up to a few lines as they are, of longer ones their beginning, length and digest."""
    shown: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = text_of(path)
        for place in hidden:
            text = text.replace(str(place), "~")
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        shown[path.relative_to(folder).as_posix()] = text if len(text) < 400 else [text[:200], len(text), digest]
    return shown


def of_each_setting(name: str, context: Any, tmp_path: Path) -> dict[str, Any]:
    shown = {}
    for number, (setting, options) in enumerate(settings_of(registry.get("exports", name))):
        made = context(tmp_path / str(number))
        try:
            registry.load("exports", name)(made, **options)
        except ExportError as error:
            shown[setting] = {"error": str(error).replace(str(tmp_path), "~")}
            continue
        shown[setting] = {"files": files(made.folder, (tmp_path,)), "lost": dict(made.lost)}
    return shown


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported.write(tmp_path_factory.mktemp("bench"), variants=("clean", "blur@radius=2.0"))


@pytest.mark.parametrize("variant", ["clean", "blurred"])
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_leave_as_ever(name: str, variant: str, ran: Path, tmp_path: Path) -> None:
    of = exported.CLEAN if variant == "clean" else exported.BLUR
    held("exports.json", f"{name} {variant}", of_each_setting(name, lambda folder: exported.context(ran, folder, of), tmp_path))


@pytest.mark.parametrize("name", RESULTS)
def test_results_leave_as_ever(name: str, tmp_path: Path) -> None:
    def context(folder: Path) -> Any:
        folder.mkdir()
        return results.context(folder)

    held("exports.json", name, of_each_setting(name, context, tmp_path))
