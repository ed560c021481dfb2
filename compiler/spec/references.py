"""Check the sections of a spec against each other: that each names only what others define."""

from collections import Counter
from collections.abc import Iterable, Sequence

from qualm.compiler.spec import estimators, fitted, metrics, validate
from qualm.compiler.spec.errors import SpecError, nearest
from qualm.compiler.spec.plugin_ref import slug
from qualm.compiler.spec.reader import SpecReader
from qualm.compiler.spec.resolved import Resolved
from qualm.compiler.spec.yaml_positions import Path_

SECTIONS = (
    "datasets", "pairs", "perturbations", "models", "finetunes", "judges", "estimators", "conformal", "calibrators", "abstentions",
    "probes", "metrics", "slices", "macro_averages",
)  # fmt: skip
"""Sections with a limited number of entries."""

WITHOUT_CONFIDENCE = "use `sequence`, or `confidence: none` beside the model: what needs a confidence is then undefined for it"


def check_names(reader: SpecReader) -> None:
    """Record a problem per repeated name; SpecError if a section has over MAX_POINTS entries.

    Datasets, pairs, models and fine-tunes must have different names.
    """
    spec = reader.spec
    many = [(section, n) for section in SECTIONS if (n := len(getattr(spec, section))) > validate.MAX_POINTS]
    for section, n in many:
        reader.problem((section,), f"expected at most {validate.MAX_POINTS:,} of them in one spec, got {n:,}", "make several specs of it")
    if many:
        raise SpecError(reader.problems)
    counts = Counter(s for section in ("datasets", "pairs", "models", "finetunes") for s in getattr(spec, section))
    for section in ("pairs", "models", "finetunes"):
        for name in getattr(spec, section):
            if counts[name] > 1:
                message = f"the name '{name}' is given to two of datasets, pairs, models and finetunes"
                reader.problem((section, name), message, "rename one of them", key=True)


def check_references(reader: SpecReader, resolved: Resolved) -> None:
    """Record a problem per unknown name, and per need of a section that another must meet."""
    spec = resolved.spec
    _compared(reader, resolved.scored_models)
    _margins(reader, resolved)
    for path, message, hint in estimators.faults(reader, resolved):
        reader.problem(path, message, hint)
    for path, message, hint in fitted.probe_faults(reader, resolved):
        reader.problem(path, message, hint, key=True)
    _given_by_models(reader, resolved)
    for path, message, hint in (*metrics.faults(reader, resolved), *fitted.calibrator_faults(reader, resolved)):
        reader.problem(path, message, hint)
    _judged_by(reader, resolved)
    _perturbed_by(reader, resolved)
    if spec.judging.labels is not None and reader.lacks("judges"):
        reader.problem(("judging", "labels"), "expected a judge to hold to these labels, found none", "add `judges:`")
    if spec.metrics and reader.lacks("models") and reader.lacks("finetunes"):
        reader.problem(("metrics",), "expected a model to compute metrics of, found none", "add `models:`")
    _recipes_read_one_dataset_each(reader, resolved)
    _same_paths(reader, [*(("datasets", d.label) for d in resolved.data), *(("models", m.ref.label) for m in resolved.models)])


def _compared(reader: SpecReader, names: Sequence[str]) -> None:
    compare = reader.spec.compare
    places: list[tuple[Path_, str]] = [] if compare.baseline is None else [(("compare", "baseline"), compare.baseline)]
    places += [(("compare", "pairs", i, k), name) for i, pair in enumerate(compare.pairs) for k, name in enumerate(pair)]
    for path, name in places:
        base, plus, _ = name.partition("+")
        failing = (
            reader.failures.has_errors("models", base)
            or reader.failures.has_errors("finetunes", base)
            or (plus and reader.failures.has_errors("abstentions"))
        )
        if name not in names and not failing:
            reader.problem(path, f"expected a model of this spec, got '{name}'", nearest(name, names))
    for i, pair in enumerate(compare.pairs):
        if pair[0] == pair[1]:
            reader.problem(("compare", "pairs", i), f"expected two different models, got '{pair[0]}' twice")


def _margins(reader: SpecReader, resolved: Resolved) -> None:
    margin = resolved.spec.compare.margin
    metrics = {metric.label: metric for metric in resolved.metrics}
    for label in margin if isinstance(margin, dict) else ():
        metric = metrics.get(label)
        if metric is None and not reader.failures.has_errors("metrics"):
            reader.problem(
                ("compare", "margin", label), f"expected a metric of this spec, got '{label}'", nearest(label, metrics), key=True
            )
        elif metric is not None and (by := metric.plugin.declares.get("compared_by")):
            message = f"{label} is compared by the square of {by}, to which no margin applies"
            reader.problem(("compare", "margin", label), message, "leave it out", key=True)


def _given_by_models(reader: SpecReader, resolved: Resolved) -> None:
    if resolved.spec.inference.confidence == "verify":
        for model in (m for m in resolved.models if not m.entry.confidence and "p_yes" not in m.gives):
            message = f"`verify` asks every model to verify its answers, which '{model.ref.label}' ({model.ref.plugin.name}) cannot"
            reader.problem(("inference", "confidence"), message, estimators.remedy(model, ["p_yes"]) or WITHOUT_CONFIDENCE)
    for name in resolved.spec.conformal:
        for model in (m for m in resolved.models if "option_logits" not in m.gives):
            message = f"conformal sets need option_logits, which the model '{model.ref.label}' cannot give"
            reader.problem(("conformal", name), message, estimators.remedy(model, ["option_logits"]), key=True)
    for model in resolved.models:
        if model.preset is None or model.preset.structured:
            continue
        if any(model.prompt_for(data).get("answer_format") == "json" for data in resolved.evaluated):
            message = f"{model.preset.title} ignores a JSON Schema at this address, and `answer_format: json` needs one"
            remedy = "`prompt: {answer_format: free}` beside its plugin"
            reader.problem(("models", model.ref.label.partition("@")[0]), message, remedy, key=True)


def _judged_by(reader: SpecReader, resolved: Resolved) -> None:
    labels = [judge.label for judge in resolved.judges]
    names = {*labels, *(label.split("@")[0] for label in labels)}
    places = [("datasets", name, entry.judges) for name, entry in reader.spec.datasets.items()]
    places += [("pairs", name, entry.judges) for name, entry in reader.spec.pairs.items()]
    for section, name, judges in places:
        for i, judge in enumerate(judges or ()):
            if reader.unknown(judge, names, "judges"):
                reader.problem((section, name, "judges", i), f"expected a judge of this spec, got '{judge}'", nearest(judge, names))


def _perturbed_by(reader: SpecReader, resolved: Resolved) -> None:
    """Record unknown names under `perturb:`, and perturbations that no dataset uses."""
    names = {name: None for p in resolved.perturbations for name in (p.plugin.name, p.label)}
    places = [("datasets", name, entry.perturb) for name, entry in reader.spec.datasets.items()]
    places += [("pairs", name, entry.perturb) for name, entry in reader.spec.pairs.items()]
    for section, name, perturb in places:
        for i, named in enumerate(perturb if isinstance(perturb, list) else ()):
            if reader.unknown(named, names, "perturbations"):
                message = f"expected a perturbation of this spec, got '{named}'"
                reader.problem((section, name, "perturb", i), message, nearest(named, names) if names else "add `perturbations:`")
    if reader.failures.has_errors("datasets") or reader.failures.has_errors("pairs") or not resolved.evaluated:
        return
    taken = {p.label for d in resolved.evaluated for p in resolved.perturbations_of(d)}
    for i, item in enumerate(reader.spec.perturbations):
        plugin = item if isinstance(item, str) else next(iter(item), "") if isinstance(item, dict) else ""
        idle = [p.label for p in resolved.perturbations if p.plugin.name == plugin and p.label not in taken]
        if idle:
            message = f"no dataset is asked under {', '.join(idle)}"
            reader.problem(("perturbations", i), message, "name it under `perturb:` of a dataset, or take it out of `perturbations:`")


def _recipes_read_one_dataset_each(reader: SpecReader, resolved: Resolved) -> None:
    labels = {d.label for d in resolved.data}
    for pairs in resolved.pairs:
        for name in (n for n in pairs.sources if n in reader.spec.datasets and n not in labels):
            if points := sorted(label for label in labels if label.split("@")[0] == name):
                message = f"recipes read one dataset, and '{name}' is a sweep of {len(points)}: {', '.join(points)}"
                reader.problem(("pairs", pairs.label), message, "give each of them a name of its own under `datasets:`", key=True)


def _same_paths(reader: SpecReader, named: Iterable[tuple[str, str]]) -> None:
    name_of: dict[tuple[str, str], str] = {}
    for section, name in named:
        key = (section, slug(name).lower())
        if key in name_of and name_of[key] != name:
            reader.problem((section,), f"'{name_of[key]}' and '{name}' would lie in the same folder", "rename one of them")
        name_of[key] = name
