"""`qualm export`: select answers of a spec, call an export plugin, and move its files to their place."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.plan.emit import how_to_make
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import changed_results, may_publish
from qualm.compiler.results.scores import results_in, score_stage
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.compiler.spec.resolved import Resolved
from qualm.registry import CLEAN
from qualm.registry.parameters import nested_paths
from qualm.registry.plugins import registry
from qualm.registry.plugins.declarations import for_arguments
from qualm.registry.plugins.options import parse_options
from qualm.registry.plugins.registry import Plugin, PluginError
from qualm.registry.system import atomic, textfiles
from qualm.registry.system.disk_errors import explain_error
from qualm.registry.system.git import head_commit

if TYPE_CHECKING:
    from qualm.runners.plugins.exports import DatasetCredits, ExportContext, ExportPart

TABLES = ("judgements", "uncertainties", "sets", "recalibrated", "scores")
"""Tables of the whole spec that are passed on if they exist."""


NOTICE = "CHANGED_RESULTS.txt"
"""File in exports made with --force that names the results which differ from their recorded hashes."""
RECORDED = "recorded"
"""Plugin of models whose answers were recorded elsewhere."""


@dataclass(frozen=True)
class ExportRequest:
    """Options of `qualm export`."""

    spec: str
    out: Path
    to: str
    models: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    variants: Sequence[str] | None = None
    options: Sequence[str] = ()
    force: bool = False


def export_results(project: Project, request: ExportRequest) -> bool:
    """Write an export and print what it has; return False if changed results forbid it.

    Returns:
        False if nothing was written because results differ from their recorded hashes.

    Raises:
        ProjectError: an unknown format, option, model or dataset; missing answers; existing files.
    """
    from qualm.runners.data.dataset import BrokenSampleError
    from qualm.runners.plugins.exports import ExportContext, ExportError
    from qualm.runners.runtime.records import RecordError
    from qualm.runners.runtime.settings import SettingsError, read_settings
    from qualm.runners.runtime.stage import StageError

    plugin = _plugin(request.to)
    try:
        args = parse_options(plugin, request.options)
    except PluginError as error:
        raise ProjectError(str(error)) from None
    of = plugin.declares.get("OF")
    resolved = project.resolve(request.spec)
    plan = project.plan_of(resolved)
    default, out = project.run_wide.default, request.out.absolute()
    if out.exists() and not out.is_dir():
        raise ProjectError(f"{request.out}: is a file; expected a folder to write into")
    try:
        with chdir(project.root), _staging(out) as folder:
            context = ExportContext(
                folder=folder,
                spec=plan.spec,
                parts=() if of in ("datasets", "results", "runs") else _parts(plan, request, default),
                datasets=_datasets(resolved, plan, request, default) if of == "datasets" else {},
                **(_results(project, plan, request, of == "runs") if of in ("results", "runs") else _scoring(plan)),
                time=_now(),
                settings=read_settings(),
                title=plan.title,
                recipe=textfiles.read_text(project.spec_path(request.spec)),
                revision=_revision(project.root),
                decoding=_decoding(resolved, plan),
                models={m.ref.label: {"plugin": m.ref.plugin.name, "args": m.ref.args} for m in resolved.models},
                about=_credits(resolved),
                tables=_tables(plan),
                scored=bool(plan.writers("scores")),
                place=out.name,
                higher_is_better={m.label: for_arguments(m.plugin, m.args).declares.get("higher_is_better") for m in resolved.metrics},
            )
            sources = list(_sources(context, plan))
            if not may_publish(project.root, sources, request.force):
                return False
            if changed := changed_results(project.root, sources):
                context.revision = f"{context.revision}-changed-results".lstrip("-")
                atomic.write_text(folder / NOTICE, "".join(f"{notice}\n" for notice in changed))
            registry.load("exports", plugin.name)(context, **args)
            files = _place(folder, out, request.force)
    except (ExportError, RecordError, StageError, BrokenSampleError, SettingsError) as error:
        raise ProjectError(str(error)) from error
    except OSError as error:
        raise ProjectError(f"{explain_error(error, str(out))}; nothing was replaced") from error
    _tell(context, request, files)
    return True


def _plugin(to: str) -> Plugin:
    try:
        return registry.get("exports", to.replace("-", "_"))
    except PluginError:
        names = [name.replace("_", "-") for name in registry.names("exports")]
        raise ProjectError(f"no export '{to}'; {nearest(to, names)}") from None


def _parts(plan: Plan, request: ExportRequest, default_spec: str) -> tuple[ExportPart, ...]:
    from qualm.runners.data.dataset import read_variants
    from qualm.runners.plugins.exports import ExportPart

    parts: list[ExportPart] = []
    names_of: dict[str, dict[str, None]] = {"model": {}, "dataset": {}, "variant": {}}
    missing: list[str] = []
    for stage in plan.writers("generations"):
        model = stage.params["model"]["label"]
        for variant in read_variants(stage.params["variants"], stage.inputs.get("perturbed")):
            for dataset, path in stage.outputs["generations"].items():
                for kind, name in (("model", model), ("dataset", dataset), ("variant", variant.name)):
                    names_of[kind][name] = None
                chosen = (request.models, model), (request.datasets, dataset), (request.variants or [CLEAN], variant.name)
                if all(names is None or name in names for names, name in chosen):
                    samples, recorded = Path(stage.inputs["datasets"][dataset]), stage.params["model"]
                    elsewhere = recorded["args"] if recorded["plugin"] == RECORDED else None
                    source = Path(stage.inputs["model"]) if elsewhere is not None and "model" in stage.inputs else None
                    parts.append(
                        ExportPart(
                            model, dataset, variant, stage.seed, samples, Path(path), elsewhere, source, stage.params.get("prompt", {})
                        )
                    )
                    missing += [] if Path(path).is_file() and parts[-1].samples.is_dir() else [stage.name]
    for kind, names in (("model", request.models), ("dataset", request.datasets), ("variant", request.variants)):
        for name in names or ():
            if name not in names_of[kind]:
                raise ProjectError(f"no {kind} '{name}' in {plan.spec}; {nearest(name, names_of[kind])}")
    if missing:
        raise ProjectError(f"answers are missing; compute or fetch them {how_to_make(plan.spec, dict.fromkeys(missing), default_spec)}")
    if not parts:
        raise ProjectError(f"{plan.spec}: has no models that answer anything; add `models:`")
    return tuple(sorted(parts, key=lambda p: (p.model, p.dataset)))


def _datasets(resolved: Resolved, plan: Plan, request: ExportRequest, default_spec: str) -> dict[str, Path]:
    """Return {dataset: folder} of those requested, else the pair sets or the only dataset."""
    if request.models or request.variants:
        raise ProjectError(f"--to {request.to} writes datasets, of which no model or variant is a part; say which dataset with -d")
    stage_of = plan.makers
    names = list(request.datasets or (s.label for s in resolved.pairs))
    if not names and len(stage_of) == 1:
        names = list(stage_of)
    if not stage_of:
        raise ProjectError(f"{plan.spec}: has no dataset; add one under `datasets:`")
    if not names:
        raise ProjectError(f"{plan.spec}: has several datasets and no pair set; say which with -d: {', '.join(stage_of)}")
    for name in names:
        if name not in stage_of:
            raise ProjectError(f"no dataset '{name}' in {plan.spec}; {nearest(name, stage_of)}")
    folders = {name: Path(stage_of[name].outputs["dataset"]) for name in names}
    if missing := [stage_of[name].name for name, folder in folders.items() if not (folder / "samples.parquet").is_file()]:
        raise ProjectError(f"datasets are missing; make or fetch them {how_to_make(plan.spec, missing, default_spec)}")
    return folders


def _results(project: Project, plan: Plan, request: ExportRequest, runs: bool) -> dict[str, Any]:
    logs = {s.params["name"]: Path(s.outputs["log"]) for s in plan.writers("log") if Path(s.outputs["log"]).is_file()}
    if runs and logs and not plan.writers("scores"):
        return {"training": logs, "models_asked": tuple(request.models or ())}
    stage = score_stage(project, plan.spec)
    if request.variants:
        raise ProjectError(f"--to {request.to} takes no --variant; `qualm ls exports {request.to}` lists its options")
    for what, names, there in (
        ("model", request.models, results_in(plan.stages, stage, plan.spec, project.root).models),
        ("dataset", request.datasets, list(stage.inputs["datasets"])),
    ):
        for name in names or ():
            if name not in there:
                raise ProjectError(f"no {what} '{name}' in {plan.spec}; {nearest(name, there)}")
    files = {name: Path(path) for name, path in stage.outputs.items() if Path(path).is_file()}
    tables, points = ({name: path for name, path in files.items() if path.suffix == suffix} for suffix in (".parquet", ".csv"))
    selected = {"models_asked": tuple(request.models or ()), "datasets_asked": tuple(request.datasets or ())}
    return {"results": tables, "points": points, "training": logs, "scoring": stage.params, **selected}


def _scoring(plan: Plan) -> dict[str, Any]:
    return next(({"scoring": stage.params} for stage in plan.writers("scores")), {})


def _sources(context: ExportContext, plan: Plan) -> Iterator[Path]:
    for part in context.parts:
        yield from (part.samples, part.generations)
    if any(part.variant.name != CLEAN for part in context.parts):
        yield from (Path(p) for stage in plan.writers("generations") for p in nested_paths(stage.inputs.get("perturbed", {})))
    if context.parts:
        yield from context.tables.values()
    for files in (context.datasets, context.results, context.points, context.training):
        yield from files.values()


def _decoding(resolved: Resolved, plan: Plan) -> dict[str, Any]:
    settings = resolved.spec.inference.model_dump()
    return {k: settings[k] for k in sorted(settings) if any(k in s.params for s in plan.writers("generations"))}


def _credits(resolved: Resolved) -> dict[str, DatasetCredits]:
    """Return {dataset: title, licence, citation...}; a pair set joins those of its sources."""
    from qualm.runners.plugins.exports import DatasetCredits

    about_of: dict[str, DatasetCredits] = {}
    for d in resolved.datasets:
        card = d.card
        about_of[d.label] = DatasetCredits(
            card.title, card.licence, card.citation, card.source, card.description, {str(name): text for name, text in card.rai.items()}
        )
    for s in resolved.pairs:
        of = [about for name, about in about_of.items() if name.split("@")[0] in s.sources]
        title, licence, source = (_joined(getattr(a, name) for a in of) for name in ("title", "licence", "source"))
        citation, description = (_joined((getattr(a, name) for a in of), "\n") for name in ("citation", "description"))
        rai = {name: _joined((a.rai.get(name, "") for a in of), "\n") for name in dict.fromkeys(name for a in of for name in a.rai)}
        about_of[s.label] = DatasetCredits(title, licence, citation, source, description, rai)
    return about_of


def _joined(texts: Iterable[str], between: str = "; ") -> str:
    return between.join(dict.fromkeys(filter(None, texts)))


def _tables(plan: Plan) -> dict[str, Path]:
    paths = {name: Path(path) for stage in plan.stages for name, path in _outputs(stage) if name in TABLES}
    return {name: paths[name] for name in TABLES if name in paths and paths[name].is_file()}


def _outputs(stage: PlannedStage) -> Iterator[tuple[str, str]]:
    yield from ((k, v) for k, v in stage.outputs.items() if isinstance(v, str))


def _revision(root: Path) -> str:
    commit, dirty = head_commit(root)
    return commit + "-dirty" * dirty


def _now() -> datetime:
    """Return the time now in UTC, or that of SOURCE_DATE_EPOCH, for repeatable exports."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(fixed), UTC) if fixed and fixed.isdecimal() else datetime.now(UTC)


@contextmanager
def _staging(out: Path) -> Iterator[Path]:
    """Yield an empty folder on the disk of `out`; delete what is left in it after the block."""
    parent = next(p for p in (out, *out.parents) if p.is_dir())
    folder = Path(tempfile.mkdtemp(prefix=".qualm-export-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _place(folder: Path, out: Path, force: bool) -> list[Path]:
    files = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    there = [f for f in files if (out / f).exists() or (out / f).is_symlink()]
    if there and not force:
        raise ProjectError(f"{out}: would replace {say.list_some(map(str, there), 3)}; choose another folder, or --force")
    for file in files:
        atomic.publish(folder / file, out / file)
    if Path(NOTICE) not in files:
        (out / NOTICE).unlink(missing_ok=True)
    return files


def _tell(context: ExportContext, request: ExportRequest, files: Sequence[Path]) -> None:
    samples, answers = context.counts["samples"], context.counts["answers"]
    what = say.EXPORTED_ANSWERS.format(answers=answers, questions=samples, parts=len(context.parts))
    if context.results:
        figures, tables = context.counts["figures"], context.counts["tables"]
        what = say.EXPORTED_FIGURES.format(n=figures) if figures else say.EXPORTED_TABLES.format(n=tables)
    if scores := context.counts["scores"]:
        what = say.EXPORTED_SCORES.format(n=scores)
    if context.datasets:
        what = say.EXPORTED_QUESTIONS.format(n=samples, datasets=", ".join(context.datasets))
    print(say.EXPORTED_FILES.format(folder=request.out, files=say.count(len(files), "file"), contents=what))
    for file in files[:6]:
        print(f"  {file}")
    if len(files) > 6:
        print(say.MORE_LINES.format(n=len(files) - 6))
    if n := context.counts["samples without an answer"]:
        print(say.EXPORT_WITHOUT_ANSWER.format(n=n), file=sys.stderr)
    for what, n in context.lost.items():
        print(say.EXPORT_LEAVES_OUT.format(format=request.to, what=what, n=n), file=sys.stderr)
