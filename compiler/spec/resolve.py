"""Resolve a spec: expand every sweep, fill in every default, look up every reference."""

from pathlib import Path

from qualm.compiler.spec import datasets, fitted, metrics, models, pairsets, validate
from qualm.compiler.spec.elsewhere import OtherSpecModels
from qualm.compiler.spec.errors import Problems, SpecError
from qualm.compiler.spec.language import RunWide, Spec
from qualm.compiler.spec.reader import Failures, SpecReader
from qualm.compiler.spec.references import check_names, check_references
from qualm.compiler.spec.resolved import ProbeUse, Resolved
from qualm.compiler.spec.yaml_positions import Document, load, load_leniently


def resolve_file(path: Path, root: Path, run_wide: RunWide, within: tuple[str, ...] = ()) -> Resolved:
    """Return a spec file's resolved content; SpecError with every problem.

    Args:
        within: names of specs being resolved that read models of this one.
    """
    document = load_leniently(path, root)
    problems = Problems(document.problems)
    try:
        resolved = _resolve_valid(document, problems, path, root, run_wide, within)
    except SpecError as error:
        raise SpecError(error.problems, document.sources) from None
    if problems or resolved is None:
        raise SpecError(problems, document.sources)
    return resolved


def _resolve_valid(
    document: Document, problems: Problems, path: Path, root: Path, run_wide: RunWide, within: tuple[str, ...]
) -> Resolved | None:
    """Return the resolved valid part, None if none; record every problem."""
    spec, sound = validate.sound_part(Spec, document, problems, {"qualm": 1, "name": path.stem, "datasets": {}})
    if spec is None:
        return None
    if spec.name != path.stem:
        problems.append(document.problem(("name",), f"expected the file's own name '{path.stem}', got '{spec.name}'"))
    inner = (*within, path.stem)
    elsewhere = OtherSpecModels(root / "specs", inner, lambda other: resolve_file(other, root, run_wide, inner))
    return _resolve(SpecReader(sound, spec, run_wide, problems, elsewhere, Failures(document, problems)))


def read_run_wide(root: Path) -> RunWide:
    """Return the content of params.yaml; SpecError with every mistake."""
    document = load(root / "params.yaml", root)
    problems = Problems()
    run_wide = validate.model(RunWide, document, problems)
    if run_wide is None:
        raise SpecError(problems, document.sources)
    return run_wide


def _resolve(reader: SpecReader) -> Resolved:
    spec = reader.spec
    check_names(reader)
    tuned = models.resolve_finetunes(reader)
    pairs = pairsets.resolve(reader)
    data = datasets.resolve(reader, {d for f in tuned for d in f.datasets} | {d for s in pairs for d in s.sources})
    answering = models.resolve_models(reader, tuned)
    estimators = reader.refs("estimators", spec.estimators)
    resolved = Resolved(
        spec=spec,
        seed=spec.seed if spec.seed is not None else reader.run_wide.seed,
        datasets=data,
        pairs=pairs,
        models=answering,
        finetunes=tuned,
        perturbations=reader.refs("perturbations", spec.perturbations, label_all_given=True),
        judges=reader.refs("judges", spec.judges, in_order=True),
        estimators=estimators,
        conformal=fitted.resolve_conformal(reader),
        calibrators=fitted.resolve_calibrators(reader, estimators),
        abstentions=fitted.resolve_abstentions(reader, [m.ref.label for m in answering]),
        probes=fitted.fitted_uses(reader, "probes", ProbeUse, [m.ref.label for m in answering]),
        metrics=metrics.with_companions(reader.refs("metrics", spec.metrics)),
        blind=fitted.resolve_blind(reader, [m.ref.label for m in answering]),
        files=(*reader.document.files, *reader.elsewhere.files, *sorted(reader.prompts.files)),
    )
    if (cells := len(resolved.models) * len(resolved.evaluated)) > 2 * validate.MAX_POINTS:
        reader.problem(("models",), f"expected at most {2 * validate.MAX_POINTS:,} models x datasets, got {cells:,}", "make several specs")
    check_references(reader, resolved)
    return resolved
