"""A checkout of this project: its root, its specs, and what they compile to."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from compiler import emit
from compiler.errors import Mark, Problem, SpecError, nearest
from compiler.plan import Plan
from compiler.planning.make import make_plan
from compiler.resolve import read_run_wide, resolve_file
from compiler.resolved import Resolved
from compiler.spec import NAME_PATTERN, RunWide
from registry.plugins import ROOT
from runners.settings import FILE, Settings, SettingsError, read_settings


class ProjectError(Exception):
    """The command cannot be carried out here: what is wrong and what to do. Exit 2."""


class Project:
    """The checkout that the working directory lies in."""

    def __init__(self, start: Path | None = None) -> None:
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if (folder / "params.yaml").is_file() and (folder / "specs").is_dir():
                self.root = folder
                break
        else:
            raise ProjectError(f"{here}: no params.yaml and specs/ here or above; change into a checkout of qualm")
        self._run_wide: RunWide | None = None

    @property
    def run_wide(self) -> RunWide:
        if self._run_wide is None:
            self._run_wide = read_run_wide(self.root)
        return self._run_wide

    @property
    def settings(self) -> Settings:
        """Local execution settings.

        Raises:
            ProjectError: they have mistakes.
        """
        try:
            return read_settings(self.root / FILE)
        except SettingsError as error:
            raise ProjectError(str(error)) from None

    def specs(self) -> list[str]:
        """Names of all specs, sorted."""
        return sorted(p.stem for p in (self.root / "specs").glob("*.yaml"))

    def spec_path(self, spec: str | None) -> Path:
        """The file of a spec, by name or path; the default's where none is named."""
        if spec is None:
            spec = self.run_wide.default
        path = Path(spec)
        if path.suffix in (".yaml", ".yml"):
            return path if path.is_absolute() else Path.cwd() / path
        found = self.root / "specs" / f"{spec}.yaml"
        if not re.match(NAME_PATTERN, spec) or not found.is_file():
            raise SpecError([Problem(Mark(f"specs/{spec}.yaml"), "", "there is no such spec", nearest(spec, self.specs()))])
        return found

    def resolve(self, spec: str | None = None) -> Resolved:
        return resolve_file(self.spec_path(spec), self.root, self.run_wide)

    def plan(self, spec: str | None = None) -> Plan:
        return make_plan(self.resolve(spec), self.root)

    def before(self, plan: Plan) -> list[Plan]:
        """Plans of the specs whose models a plan reads, and of those that they read, each after what it reads."""
        found: dict[str, Plan] = {}

        def visit(one: Plan) -> None:
            for spec in sorted(one.reads - {plan.spec, *found}):
                made = self.plan(spec)
                visit(made)
                found[spec] = made

        visit(plan)
        return list(found.values())

    def compile(self, specs: list[str] | None = None, check: bool = False) -> emit.Changes:
        """Compile the given specs, or all of them and what belongs to none: JSON Schema, plot templates, pages of docs/.

        With `check` only say what is out of step."""
        from compiler.catalogue import catalogue
        from compiler.reference import reference
        from compiler.schema import schema_text

        everything = not specs
        plans = [self.plan(s) for s in (specs or self.specs())]
        pages = {"specs/spec.schema.json": schema_text}
        if self.root == ROOT:  # another project's docs/ is its own
            pages |= {"docs/spec.md": reference, "docs/datasets.md": catalogue}
        extra = {path: page() for path, page in pages.items()} | emit.plot_templates() if everything else {}
        return emit.write(self.root, plans, self.run_wide.default, extra, dry=check)

    def dvc(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """The `dvc` of this very environment, and an environment in which its stages find the same Python."""
        import sys

        scripts = Path(sys.executable).parent
        found = shutil.which("dvc", path=str(scripts)) or shutil.which("dvc")
        if found is None:
            raise ProjectError("`dvc` is not installed in this environment; run `make setup`")
        environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}", "DVC_NO_ANALYTICS": "true"}
        return [found, *arguments], environment
