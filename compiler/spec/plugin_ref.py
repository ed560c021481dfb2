"""One plugin with all its parameters, and where what it names lies."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from qualm.compiler.spec.references_in import names_in, nested_plugins, replaced_in
from qualm.registry.plugins.column_names import CONTEXT
from qualm.registry.plugins.columns import columns
from qualm.registry.plugins.rule import PROMPTS, ROOT, Artifact, Chosen, Kind, Parameter, Plugin, Prompt

DATA = "registry/data"

OWN = {"perturbations": (Parameter("materialize", bool, False, "bool"), Parameter("scored", bool | None, None, "bool | None"))}
"""Parameters that every plugin of a kind has beside its own: they say where a thing is made or how it is scored, never what it is."""

PREPARE = Parameter("prepare", Annotated[Chosen, Kind("preparations")] | None, None, "plugin of preparations | None")
"""Keys that stand beside an adapter's parameters and say what is done with its samples."""


@dataclass(frozen=True)
class Ref:
    """One plugin with all its parameters."""

    label: str
    plugin: Plugin
    args: dict[str, Any]
    materialize: bool = False
    """Of a perturbation: the spec wants what it makes written down."""
    scored: bool | None = None
    """Of a perturbation: whether answers are held to the old reference; None leaves it to the plugin."""

    @property
    def is_stage(self) -> bool:
        """Of a perturbation: it is made once, by a stage of its own, and not wherever pictures are loaded."""
        return self.materialize or self.plugin.reads[:1] == (CONTEXT,)

    @property
    def keeps_answer(self) -> bool:
        """Of a perturbation: what was the right answer still is, or the spec has it scored nonetheless."""
        return bool(self.plugin.declares.get("KEEPS_ANSWER", True)) if self.scored is None else self.scored

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugin and those that its arguments name."""
        return (self.plugin, *nested_plugins(self.plugin, self.args))

    @property
    def reads(self) -> tuple[str, ...]:
        """Of an estimator or a metric: the columns it reads with these arguments (`qualm.registry.plugins.columns`)."""
        return tuple(column for column in columns(self.plugin, self.args).values() if column is not None)

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Paths of what it reads from registry/data/ and specs/prompts/."""
        return tuple(path for kind in (Artifact, Prompt) for path in names_in(self.plugin, self.args, kind))

    def as_json(self) -> dict[str, Any]:
        return {"label": self.label, "plugin": self.plugin.name, "args": self.args}


def located(plugin: Plugin, args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with every Artifact and Prompt, also those of nested plugins, as the path that the runner opens."""
    return replaced_in(plugin, replaced_in(plugin, args, Artifact, artifact_path), Prompt, prompt_path)


def artifact_path(name: str) -> str:
    """Where an artifact lies, from the root: an entry of registry/data/, or `SPEC:MODEL`, a model that another spec makes."""
    spec, _, model = name.partition(":")
    return f"results/{spec}/models/{slug(model)}" if model else f"{DATA}/{name}"


def prompt_path(name: str) -> str:
    """Where a prompt lies, from the root."""
    return f"{PROMPTS}/{name}.md"


def prompts_folder() -> Path:
    """Where the prompts lie that a spec can name: in the project that the working directory is in; else ours."""
    here = Path.cwd()
    return next((folder / PROMPTS for folder in (here, *here.parents) if (folder / PROMPTS).is_dir()), ROOT / PROMPTS)


def slug(label: str) -> str:
    """A label as a part of a path or stage name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", label)
