"""Benchmarks in the package: copy one into a project, with the specs and prompts that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.registry.places import PACKAGE
from qualm.registry.plugins.registry import PROMPT_PATTERN, PROMPTS
from qualm.registry.system import atomic, textfiles

SPECS = PACKAGE / "specs"
_COMMANDS = "fetch|run|plan|validate|show|stats|verify|strength|judges|power|prompt|compile|graph|export|cite|share|view"


def shipped() -> dict[str, str]:
    """Return {name: title} of the benchmarks that come with Qualm."""
    return {name: str(textfiles.read_yaml(SPECS / f"{name}.yaml").get("title", "")) for name in shipped_names()}


def shipped_names() -> list[str]:
    return sorted(file.stem for file in SPECS.glob("*.yaml"))


def copy_shipped(root: Path, source: str, name: str) -> list[Path]:
    """Write benchmark `source` as specs/NAME.yaml and absent needed files; return new paths.

    Returns:
        Paths of the written files, from the root of the project.

    Raises:
        ProjectError: there is no such benchmark.
    """
    names = shipped_names()
    if source not in names:
        raise ProjectError(f"no benchmark '{source}' comes with Qualm; {nearest(source, names)}")
    text = textfiles.read_text(SPECS / f"{source}.yaml")
    written = [Path("specs") / f"{name}.yaml"]
    atomic.write_text(root / written[0], renamed(text, source, name))
    values = list(_texts(textfiles.parse_yaml(text, f"{source}.yaml")))
    parents = [value.removesuffix(".yaml") for key, value in values if key == "extends"]
    makers = [value.partition(":")[0] for _, value in values if ":" in value]
    for other in dict.fromkeys(parents + makers):
        if other in names and not (root / "specs" / f"{other}.yaml").exists():
            written += copy_shipped(root, other, other)
    prompts = [
        f"{value}.md" for key, value in values if key in ("ask_answerable", "prompt", "template") and re.match(PROMPT_PATTERN, value)
    ]
    examples = [value for key, value in values if key == "file"]
    for prompt in dict.fromkeys(prompts + examples):
        path = Path(PROMPTS) / prompt
        if (PACKAGE / path).is_file() and not (root / path).exists():
            atomic.write_text(root / path, textfiles.read_text(PACKAGE / path))
            written.append(path)
    return written


def renamed(text: str, old: str, new: str) -> str:
    r"""Return a spec's text with name `new`, also in commands of its comments.

    >>> print(renamed("# qualm run a\nname: a\ntitle: a and b", "a", "mine"))
    # qualm run mine
    name: mine
    title: a and b
    """
    text = re.sub(rf"^name: {re.escape(old)}$", f"name: {new}", text, count=1, flags=re.MULTILINE)
    return re.sub(rf"\b(qualm (?:{_COMMANDS})) {re.escape(old)}\b", rf"\1 {new}", text)


def _texts(node: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _texts(value, str(name))
    elif isinstance(node, list):
        for value in node:
            yield from _texts(value, key)
    elif isinstance(node, str):
        yield key, node
