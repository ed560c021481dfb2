"""A project: its root, its specs, and their plans."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from qualm.compiler.plan import emit
from qualm.compiler.plan.compiled_files import leftovers, owner
from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.plan.sources import FILE as FILE_OF_IMPORTS
from qualm.compiler.plan.sources import Sources
from qualm.compiler.spec.errors import Position, Problem, ProjectError, SpecError, nearest
from qualm.compiler.spec.json_schema import write_schema
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import read_run_wide, resolve_file
from qualm.compiler.spec.resolved import Resolved
from qualm.registry.machine import WINDOWS
from qualm.registry.places import is_checkout, project_root
from qualm.registry.plugins.registry import NAME_PATTERN
from qualm.registry.system import atomic
from qualm.runners.runtime.settings import FILE, Settings, SettingsError, read_settings


class Project:
    """The project at or above a folder: its root, specs, settings and plans."""

    def __init__(self, start: Path | None = None) -> None:
        root = project_root(start)
        if root is None:
            here = (start or Path.cwd()).resolve()
            raise ProjectError(f"{here}: no params.yaml and specs/ here or above; change into a project, or make one by `qualm init NAME`")
        if set("{}") & set(str(root)):
            raise ProjectError(f"{root}: DVC fails in a folder whose path has a '{{' or '}}'; rename it, or move the project")
        self.root = root
        self._run_wide: RunWide | None = None

    @property
    def run_wide(self) -> RunWide:
        if self._run_wide is None:
            self._run_wide = read_run_wide(self.root)
        return self._run_wide

    @property
    def settings(self) -> Settings:
        """Return settings from `QUALM_*`, else qualm.toml, else defaults; ProjectError if wrong."""
        try:
            return read_settings(self.root / FILE)
        except SettingsError as error:
            raise ProjectError(str(error)) from None

    def specs(self) -> list[str]:
        return sorted(p.stem for p in (self.root / "specs").glob("*.yaml"))

    def has_spec(self, word: str | None) -> bool:
        """Return whether a word is a spec's name or any path of a YAML file."""
        return word is not None and (word in self.specs() or word.endswith((".yaml", ".yml")))

    def spec_path(self, spec: str | None) -> Path:
        """Return a spec's path; SpecError for an unknown name; a given path is not checked.

        `spec` is a name, a path of a YAML file, or None for the default spec.
        """
        if spec is None:
            spec = self.run_wide.default
        path = Path(spec)
        if path.suffix in (".yaml", ".yml"):
            return path if path.is_absolute() else Path.cwd() / path
        file = self.root / "specs" / f"{spec}.yaml"
        if not re.fullmatch(NAME_PATTERN, spec) or not (file.exists() or file.is_symlink()):
            raise SpecError([Problem(Position(f"specs/{spec}.yaml"), "", "there is no such spec", nearest(spec, self.specs()))])
        return file

    def resolve(self, spec: str | None = None) -> Resolved:
        return resolve_file(self.spec_path(spec), self.root, self.run_wide)

    def plan(self, spec: str | None = None) -> Plan:
        return self.plan_of(self.resolve(spec))

    def plan_of(self, resolved: Resolved, sources: Sources | None = None) -> Plan:
        """Return the plan of a resolved spec; save to the import cache what source files import.

        Args:
            sources: source files as they were when first read, for plans that are made in one go.
        """
        sources = sources or self.sources()
        plan = make_plan(resolved, self.root, sources)
        sources.save()
        return plan

    def sources(self) -> Sources:
        return Sources(self.root / FILE_OF_IMPORTS)

    def before(self, plan: Plan) -> list[Plan]:
        """Return the plans of all specs whose models this plan needs, in running order."""
        plans: dict[str, Plan] = {}

        def visit(reader: Plan) -> None:
            for spec in sorted(reader.reads - {plan.spec, *plans}):
                needed = self.plan(spec)
                visit(needed)
                plans[spec] = needed

        visit(plan)
        return list(plans.values())

    def compile(self, specs: list[str] | None = None, check: bool = False) -> emit.FileChanges:
        """Write the compiled files of specs, or only `check` them; return the changes.

        Args:
            specs: names or paths; None = the default spec, compiled specs, and plot templates.
            check: only find what is out of date; without `specs`, every spec must have a plan.
        """
        default = self.run_wide.default
        if specs:
            plans = self._plans(specs)
        else:
            here = [spec for spec in self.specs() if spec == default or self.is_compiled(spec)]
            plans = [plan for plan in self._plans(self.specs() if check else here) if plan.spec in here]
        changes = emit.write(self.root, plans, default, {} if specs else emit.plot_templates(), dry=check)
        changes.plans = plans
        changes.leftovers = [] if specs else leftovers(self.root, self.specs())
        if not check and not specs:
            write_schema(self.root)
        return changes

    def is_compiled(self, spec: str) -> bool:
        return spec in map(owner, (self.root / "dvc.yaml", self.root / "specs" / spec / "dvc.yaml"))

    def _plans(self, specs: list[str]) -> list[Plan]:
        plans, problems, sources = [], list[Problem](), dict[str, str]()
        seen = dict[str, str]()
        files = self.sources()
        for spec in specs:
            if (other := seen.setdefault(spec.lower(), spec)) != spec:
                problems.append(
                    Problem(
                        Position(f"specs/{spec}.yaml"),
                        "",
                        f"macOS and Windows cannot tell its files from those of specs/{other}.yaml",
                        "give it a name that differs by more than case",
                    )
                )
            try:
                plans.append(self.plan_of(self.resolve(spec), files))
            except SpecError as error:
                problems += error.problems
                sources |= error.sources
        if problems:
            raise SpecError(problems, sources)
        return plans

    @property
    def environment(self) -> dict[str, str]:
        """Return a copy of the environment, changed so that DVC's stages use this Python and code."""
        code = [str(self.root), *filter(None, [os.environ.get("PYTHONPATH")])] if is_checkout(self.root) else []
        folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        if WINDOWS:
            folders.insert(0, str(self._python3_command().parent))
        return {**os.environ, "PATH": os.pathsep.join(folders), "DVC_NO_ANALYTICS": "true"} | (
            {"PYTHONPATH": os.pathsep.join(code)} if code else {}
        )

    def _python3_command(self) -> Path:
        """Write `python3.cmd`, which Windows lacks; return its path."""
        file = self.root / ".qualm" / "bin" / "python3.cmd"
        python = sys.executable.replace("%", "%%")
        atomic.write_text(file, f'@"{python}" %*\r\n')
        return file
