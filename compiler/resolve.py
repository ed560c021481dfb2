"""A checked spec -> everything it names, spelled out: every sweep expanded, every default filled in, every reference tied."""

from __future__ import annotations

from pathlib import Path

from compiler import check
from compiler.errors import Problem, SpecError
from compiler.load import load
from compiler.resolved import Resolved
from compiler.sections import abstentions, conformal, datasets, finetunes, metrics, models, pairsets
from compiler.sections.reader import Reader
from compiler.sections.references import check_names, check_references
from compiler.sections.tuned import Elsewhere
from compiler.spec import RunWide, Spec


def resolve_file(path: Path, root: Path, run_wide: RunWide, within: tuple[str, ...] = ()) -> Resolved:
    """Read, check and spell out a spec.

    Args:
        path: of the spec.
        root: of the checkout.
        run_wide: params.yaml.
        within: specs that read models of this one, and are being resolved.

    Raises:
        SpecError: with every problem found.
    """
    document = load(path, root)
    problems: list[Problem] = []
    spec = check.model(Spec, document, problems)
    if spec is None:
        raise SpecError(problems, document.sources)
    if spec.name != path.stem:
        problems.append(document.problem(("name",), f"expected the file's own name '{path.stem}', got '{spec.name}'"))
    inner = (*within, spec.name)
    elsewhere = Elsewhere(root / "specs", inner, lambda other: resolve_file(other, root, run_wide, inner))
    resolved = _resolve(Reader(document, spec, run_wide, problems, elsewhere))
    if problems:
        raise SpecError(problems, document.sources)
    return resolved


def read_run_wide(root: Path) -> RunWide:
    """params.yaml, checked."""
    document = load(root / "params.yaml", root)
    problems: list[Problem] = []
    found = check.model(RunWide, document, problems)
    if found is None:
        raise SpecError(problems, document.sources)
    return found


def _resolve(reader: Reader) -> Resolved:
    spec = reader.spec
    check_names(reader)
    made = finetunes.resolve(reader)
    pairs = pairsets.resolve(reader)
    asked = datasets.resolve(reader, {d for f in made for d in f.datasets} | {d for s in pairs for d in s.sources})
    answering = models.resolve(reader, made)
    resolved = Resolved(
        spec=spec,
        seed=spec.seed if spec.seed is not None else reader.run_wide.seed,
        files=tuple(reader.document.files),
        datasets=asked,
        pairs=pairs,
        models=answering,
        finetunes=made,
        perturbations=reader.refs("perturbations", spec.perturbations, always_label=True),
        judges=reader.refs("judges", spec.judges, in_order=True),
        estimators=reader.refs("estimators", spec.estimators),
        conformal=conformal.resolve(reader),
        abstentions=abstentions.resolve(reader, [m.ref.label for m in answering]),
        metrics=metrics.with_companions(reader.refs("metrics", spec.metrics)),
    )
    check_references(reader, resolved)
    return resolved
