"""References to plugins with their parameters, and paths of what they name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.references_in import changed_arguments, names_in, nested_uses
from qualm.registry.entries import lock
from qualm.registry.places import project_root
from qualm.registry.plugins.column_names import CONTEXT
from qualm.registry.plugins.columns import columns
from qualm.registry.plugins.registry import PROMPTS, ROOT, Artifact, Chosen, Kind, Parameter, Plugin, PromptFile

DATA = "registry/data"

OWN = {"perturbations": (Parameter("materialize", bool, False, "bool"), Parameter("scored", bool | None, None, "bool | None"))}
"""Kind -> parameters that all its plugins have: they say where something is made or how it is scored, not what it is."""

PREPARE = Parameter("prepare", Annotated[Chosen, Kind("preparations")] | None, None, "plugin of preparations | None")
"""Key beside an adapter's parameters that says how its samples are transformed."""
ANSWERABLE_BY = Parameter("answerable_by", Annotated[Chosen, Kind("judges")] | None, None, "plugin of judges | None")
"""Key beside an adapter's parameters: the judge that decides from references which questions are answerable."""


@dataclass(frozen=True)
class Ref:
    label: str
    plugin: Plugin
    args: dict[str, Any]
    materialize: bool = False
    """For perturbations: the spec wants the perturbed samples stored."""
    scored: bool | None = None
    """For perturbations: whether answers are compared with the old reference; None = as the plugin declares."""

    @property
    def is_stage(self) -> bool:
        """Return whether a stage of its own stores the perturbed samples."""
        return self.materialize or self.plugin.reads[:1] == (CONTEXT,)

    @property
    def keeps_answer(self) -> bool:
        """Return whether answers under this perturbation are scored by the original reference."""
        return bool(self.plugin.declares.get("KEEPS_ANSWER", True)) if self.scored is None else self.scored

    @property
    def uses(self) -> tuple[tuple[Plugin, Mapping[str, Any]], ...]:
        """Return (plugin, arguments) of this plugin first, then of all nested in its arguments."""
        return ((self.plugin, self.args), *nested_uses(self.plugin, self.args))

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Return this plugin, then all that its arguments name."""
        return tuple(plugin for plugin, _ in self.uses)

    @cached_property  # a plan of many models and datasets reads it some 50,000 times
    def reads(self) -> tuple[str, ...]:
        """Return the names of the columns that the estimator, metric or probe reads."""
        return tuple(column for column in columns(self.plugin, self.args).values() if column is not None)

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Return the paths of artifacts, then prompts, that the arguments name."""
        return tuple(path for kind in (Artifact, PromptFile) for path in names_in(self.plugin, self.args, kind))

    def as_json(self) -> dict[str, Any]:
        return {"label": self.label, "plugin": self.plugin.name, "args": self.args}


HUB, REVISION = "hub", "revision"
"""Parameters of every plugin that reads a model of the Hugging Face hub."""


def located(plugin: Plugin, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with artifact and prompt names as paths, hub branches as commits."""
    path_of = {Artifact: artifact_path, PromptFile: prompt_path}
    return changed_arguments(plugin, args, lambda kind, name: path_of.get(kind, str)(name), lambda plugin, args: pinned(args))


def pinned(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments with a hub revision as its locked commit, if any; else unchanged."""
    root = project_root()
    if not args.get(HUB) or REVISION not in args or root is None:
        return args
    try:
        pin = lock.read(root).get(lock.model_key(args[HUB], args[REVISION]))
    except lock.FetchError as error:
        raise ProjectError(str(error)) from None
    return args if pin is None else {**args, REVISION: pin.revision}


def artifact_path(name: str) -> str:
    """Return an artifact's path: registry/data/NAME, or that of model `SPEC:MODEL`."""
    spec, _, model = name.partition(":")
    return f"results/{spec}/models/{slug(model)}" if model else f"{DATA}/{name}"


def prompt_path(name: str) -> str:
    return f"{PROMPTS}/{name}.md"


def prompts_folder() -> Path:
    """Return the nearest specs/prompts at or above the working folder, or Qualm's."""
    here = Path.cwd()
    return next((folder / PROMPTS for folder in (here, *here.parents) if (folder / PROMPTS).is_dir()), ROOT / PROMPTS)


def slug(label: str) -> str:
    """Return a label with "-" for each run of characters that paths do not allow."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", label)
