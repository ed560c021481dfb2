"""`qualm cache audit`: compute a sample of stored answers again and compare (`qualm.runners.inference.audit`)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qualm.compiler.commands.options import JsonOption, SpecsArgument
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, SpecError
from qualm.registry.plugins.registry import MAX_EXACT, MAX_NUMBER
from qualm.registry.text import print_json

if TYPE_CHECKING:
    from qualm.registry.system.console import Console
    from qualm.runners.data.maintenance import Holding
    from qualm.runners.inference.audit import AuditReport, FolderResult
    from qualm.runners.runtime.stage import Stage


def audit(
    specs: SpecsArgument = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=1, max=MAX_NUMBER, help="How many parts of answers are computed again.")
    ] = 200,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=MAX_EXACT, help="Seed of the sample; another seed draws other answers.")
    ] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compute and compare, but mark nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Recompute a sample of stored answers and mark folders that differ.

    The sample is drawn evenly over folders of the store (one per model, release and set of libraries) and kinds of
    signals. No new answer is stored. Answers that no inference stage asks for are only counted.

    A folder fails if texts differ, or numbers by more than the rounding of the model's dtype. It is then marked, and
    its answers are computed again when needed. [bold]qualm cache accept[/] removes the mark.

    Exit code 1 if a folder fails, 2 if nothing could be computed. Answers of a server cannot be computed, nor
    answers without their weights, data or GPU.

    [bold]Examples[/]

      qualm cache audit
      qualm cache audit quickstart --sample 1000
      qualm cache audit --dry-run --json
    """
    from qualm.runners.data.refusal import refuse
    from qualm.runners.inference.audit import audit as audited

    project = Project()
    stages, unreadable, absent = _stages(project, specs or [])
    with _completed_checkout(project.root, absent) as root, chdir(root):  # where the paths of stages begin
        report = audited(stages, project.root / project.settings.store, sample, seed)
    if not report.checked:
        reasons = "; ".join(f"{holding.folder.name[:8]}: {why}" for holding, why in report.unchecked) or "nothing is stored"
        raise ProjectError(f"nothing to compare: no stored answer can be computed again here ({reasons})")
    for folder in report.failed if not dry_run else ():
        refuse(folder.holding.folder, folder.why)
    if as_json:
        print_json(_facts(report, dry_run))
    else:
        _show(report, dry_run, unreadable)
    if report.failed:
        raise typer.Exit(1)


def _stages(project: Project, names: list[str]) -> tuple[list[Stage], list[str], dict[str, str]]:
    """Return (inference stages, skipped invalid specs, {missing input: its locked MD5}).

    Missing inputs are, for example, models that were fine-tuned elsewhere. No `names` means all specs.
    """
    from qualm.compiler.plan.emit import pipeline_path
    from qualm.registry.system.dvc_files import read_lock
    from qualm.runners.runtime.stage import make_stage

    stages, unreadable, absent = [], [], {}
    for name in names or project.specs():
        try:
            plan = project.plan(name)
        except SpecError:
            if names:
                raise
            unreadable.append(name)
            continue
        lock = read_lock((project.root / pipeline_path(plan.spec, project.run_wide.default)).with_suffix(".lock"))
        for stage in plan.writers("generations"):
            raw = json.loads(json.dumps(stage.as_json()))  # as it is compiled
            stages.append(make_stage(f"{plan.spec}/{stage.name}", raw, project.settings))
            for dep in lock.get(stage.name, {}).get("deps") or []:
                if dep.get("md5") and not (project.root / dep["path"]).exists():
                    absent[str(dep["path"])] = str(dep["md5"])
    return stages, unreadable, absent


@contextmanager
def _completed_checkout(root: Path, missing_md5s: Mapping[str, str]) -> Iterator[Path]:
    """Yield `root`, or a temporary folder of links to it and missing inputs that DVC cached.

    `missing_md5s` is {path of an input: its MD5}.
    """
    from qualm.registry.system.dvc_files import cache_folder
    from qualm.registry.system.dvc_objects import damaged_objects, holds, link
    from qualm.runners.runtime.stage import LOCAL

    cache = cache_folder(root)
    cached = {path: md5 for path, md5 in missing_md5s.items() if holds(cache, md5) and not damaged_objects(root, md5)}
    if not cached:
        yield root
        return
    (root / LOCAL).mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="audit-", dir=root / LOCAL) as name:
        links = Path(name)
        for path, md5 in cached.items():
            link(cache, md5, links / path)
        for folder in {parent for path in cached for parent in Path(path).parents}:
            for entry in (root / folder).iterdir() if (root / folder).is_dir() else ():
                if not (links / folder / entry.name).exists():
                    try:
                        (links / folder / entry.name).symlink_to(entry)
                    except OSError as error:  # Windows needs a permission for links
                        raise ProjectError(f"a symbolic link cannot be made: {error}; on Windows, turn on Developer Mode") from error
        yield links


def _facts(report: AuditReport, dry_run: bool) -> dict[str, Any]:
    folders = [
        {
            "folder": folder.holding.folder.name,
            "model": folder.holding.about.get("label"),
            "qualm": folder.holding.about.get("qualm"),
            "recorded": folder.holding.about.get("libraries"),
            "today": dict(folder.libraries),
            "failed": folder.failed,
            "marked": folder.failed and not dry_run,
            "why": folder.why if folder.failed else None,
            "parts": {
                kind: {
                    "stored": part.stored,
                    "checked": part.checked,
                    "equal": part.equal,
                    "rounding": part.rounding,
                    "branched": part.branched,
                    "differing": part.differing,
                    "largest": part.largest if math.isfinite(part.largest) else None,
                    "failed": part.failed,
                    "example": part.example or None,
                }
                for kind, part in sorted(folder.parts.items())
            },
        }
        for folder in report.folders
    ]
    left = [{**_named(holding), "parts": dict(sorted(holding.parts.items())), "why": why} for holding, why in report.unchecked]
    others = [{**_named(holding), "parts": dict(sorted(counts.items()))} for holding, counts in report.unasked]
    totals = {"dry_run": dry_run, "checked": report.checked, "failed": len(report.failed)}
    return {**totals, "folders": folders, "not_checked": left, "not_asked_for": others}


def _named(holding: Holding) -> dict[str, Any]:
    return {"folder": holding.folder.name, "model": holding.about.get("label"), "qualm": holding.about.get("qualm")}


def _show(report: AuditReport, dry_run: bool, unreadable: list[str]) -> None:
    from rich.markup import escape

    from qualm.compiler.project.views import console
    from qualm.registry.system.console import Console

    out, tables = console(), Console()
    for folder in report.folders:
        _table(folder, tables)
    for folder in report.folders:
        name = folder.holding.folder.name[:8]
        examples = [part.example for part in folder.parts.values() if part.example]
        if folder.failed:
            failure = (say.AUDIT_WOULD_MARK if dry_run else say.AUDIT_MARKED).format(folder=name, why=escape(folder.why))
            out.print(failure + (say.AUDIT_FIRST_EXAMPLE.format(example=escape(examples[0])) if examples else ""))
    for holding, why in report.unchecked:
        out.print(say.AUDIT_NOT_COMPUTED.format(folder=_counted(holding, holding.parts), why=escape(why)))
    for holding, counts in report.unasked:
        stages = escape(", ".join(holding.stages))
        out.print(say.AUDIT_NOT_ASKED.format(folder=_counted(holding, counts), stages=stages or "unknown"))
    for spec in unreadable:
        out.print(say.AUDIT_SKIPPED_SPEC.format(spec=spec))
    parts = say.count(report.checked, "part")
    if report.failed:
        out.print(say.AUDIT_FAILED.format(parts=parts, failed=len(report.failed), folders=say.count(len(report.folders), "folder")))
    else:
        out.print(say.AUDIT_AGREES.format(parts=parts))


def _counted(holding: Holding, parts: Mapping[str, int]) -> str:
    from rich.markup import escape

    about = escape(f"{holding.about.get('label', 'unknown')}, {holding.about.get('qualm', 'unknown')}")
    counts = ", ".join(f"{n:,} {kind}" for kind, n in sorted(parts.items()))
    return f"{holding.folder.name[:8]} ({about}; {counts or 'empty'})"


def _table(folder: FolderResult, out: Console) -> None:
    from rich.text import Text

    from qualm.registry.system.grids import Grid

    about = folder.holding.about
    moved = ", ".join(f"{library} {old} -> {new}" for library, (old, new) in folder.moved.items()) or say.TODAYS_LIBRARIES
    model, version = about.get("label", "unknown"), about.get("qualm", "unknown")
    title = say.AUDIT_TITLE.format(folder=folder.holding.folder.name[:8], model=model, version=version, libraries=moved)
    names = ("stored", "checked", "equal", "rounding", "differing", "largest")
    grid = Grid([("part", "left"), *((name, "right") for name in names)], Text(title, style="bold"))
    for kind, part in sorted(folder.parts.items()):
        numbers = (part.stored, part.checked, part.equal, part.checked - part.equal - part.apart, part.apart)
        largest = f"{part.largest:.2g}" if part.largest else "-"
        grid.add(kind, *(f"{n:,}" if n else "-" for n in numbers), largest, style="red" if part.failed else "")
    grid.print(out)
