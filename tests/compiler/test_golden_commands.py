"""What commands print of a small benchmark with results, and the files of its page, held to tests/golden/commands.json.

After a change that is meant: HELD=write pytest tests/compiler/test_golden_commands.py
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.scores import read_spec_results
from qualm.compiler.viewing.chunks import content_of
from qualm.compiler.viewing.publish import publish
from qualm.compiler.viewing.site import Site, SitePart
from qualm.registry.plugins.registry import ROOT
from tests.support.checks.held_numbers import held
from tests.support.processes.command_line import qualm
from tests.support.projects.recorded import record_results

COMMANDS = [
    "show small",
    "show small --json",
    "show small -m base -d scenes",
    "show small --variant blur@radius=2",
    "show small -m nobody",
    "show small --slice category=relation --metric accuracy",
    "show small --metric auroc --json",
    "show smal",
    "show small --slice all --slice category=counting --variant clean --variant typos@p=0.5",
    "show small --slice category=none",
    "compare small base other",
    "compare small other base --json",
    "compare small base other --metric accuracy",
    "compare small base nobody",
    "stats small",
    "stats small --json",
    "power small",
    "power small --json",
    "power small --difference 0.05 --tests 10",
    "power small --questions 500 --group-size 2.5 --within 0.3 --disagreement 0.2 --power 0.9",
    "graph small",
    "graph small --full",
    "graph small -f dot",
    "cite small",
    "cite small --json",
    "ls metrics ece",
    "ls metrics ec",
    "ls perturbations blur",
    "judges small",
    "validate small",
    "data show synthetic_scenes",
    "export small tables --to markdown",
]


@pytest.fixture(scope="module")
def project(copy_viewed: Callable[[Path], Project], tmp_path_factory: pytest.TempPathFactory) -> Project:
    viewed = copy_viewed(tmp_path_factory.mktemp("commands"))
    record_results(viewed, "small")
    return viewed


def plain(text: str, root: Path) -> str:
    """Without what differs from machine to machine and from run to run."""
    text = text.replace(str(root), "~").replace(str(ROOT), "~")
    text = re.sub(r"\b[0-9a-f]{32,64}\b", "HASH", text)
    text = re.sub(r"\b\d+(\.\d+)? ?(s|ms|min|B|KB|kB|MB|GB|KiB|MiB|GiB)\b", "SIZE", text)
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", "TIME", text)


def shortened(text: str) -> str | list[object]:
    return text if len(text) < 3000 else [text[:600], len(text), hashlib.sha256(text.encode()).hexdigest()[:16]]


def printed(command: str, root: Path) -> tuple[int, str]:
    done = qualm(*command.split(), cwd=root, COLUMNS="120", NO_COLOR="1", TERM="dumb")
    return done.returncode, done.stderr + done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_prints_is_as_ever(command: str, project) -> None:
    code, text = printed(command, project.root)
    held("commands.json", command, [code, shortened(plain(text, project.root))])


@pytest.mark.slow
def test_the_published_page_is_as_ever(project, tmp_path: Path) -> None:
    site = Site([SitePart(read_spec_results(project, "small"), project.plan("small").stages)], "Small results", "clean")
    publish(site, tmp_path / "site")
    shown: dict[str, object] = {}
    for path in sorted((tmp_path / "site" / "data").rglob("*.js")):
        content = content_of(path.read_bytes())
        name = path.relative_to(tmp_path / "site" / "data").as_posix()
        with contextlib.suppress(UnicodeDecodeError, ValueError):
            text = plain(json.dumps(json.loads(content), sort_keys=True), project.root)
            shown[name] = text if len(text) < 300 else [text[:160], len(text), hashlib.sha256(text.encode()).hexdigest()[:12]]
            continue
        shown[name] = [len(content), hashlib.sha256(content).hexdigest()[:12]]
    shown["pictures"] = sorted(path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.webp"))[::8]
    held("commands.json", "published page", shown)
