"""Estimate, for `qualm plan`, how many stored answers inference stages reuse and how many they compute.

The estimate comes from the records of the last runs in this checkout, so it takes milliseconds for any number of answers. It ignores
answers that other runs have stored since: the number to compute is an upper bound. If the questions change, there is no estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.rebuilds import Forecast
from qualm.compiler.spec import sentences as say
from qualm.registry import DRAWS, SHOWN_DRAWS
from qualm.registry.parameters import to_lists, to_mappings
from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.internals import is_internal, parse_internal
from qualm.registry.plugins.registry import get
from qualm.runners.contracts.parts import ANSWER, OPTIONS, PARTS, draw_of, family_of, is_signal, subjects_of
from qualm.runners.data.refusal import refusal
from qualm.runners.runtime.code_digest import Engine, find_engine
from qualm.runners.runtime.libraries import are_equal_versions
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import ANSWERS, read_record

PER_PART = ("max_new_tokens", "temperature", "top_p", "top_k", "draws", "needs", "variants")
"""Parameters that change some parts of answers; any other parameter may change all."""
FAMILIES = ("answers", "draws", "signals")


@dataclass(frozen=True)
class KeptAnswers:
    """Counts of a stage's answer parts: stored, and to be computed."""

    stage: str
    stored: Mapping[str, int] = field(default_factory=dict)
    releases: Mapping[str, int] = field(default_factory=dict)
    """Qualm release -> number of stored parts that it computed."""
    computed: Mapping[str, int] | None = None
    """Upper bound; None if unknown."""
    why: tuple[str, ...] = ()
    """Reasons why stored answers do not count, or why nothing is known."""

    def as_json(self) -> dict[str, Any]:
        computed = None if self.computed is None else dict(self.computed)
        return {"kept": dict(self.stored), "from": dict(self.releases), "to_compute_at_most": computed, "why": list(self.why)}


def kept_answers(plan: Plan, forecasts: Sequence[Forecast], root: Path, settings: Settings) -> Iterator[KeptAnswers]:
    """Yield counts of stored and missing answers per inference stage not restored or recorded."""
    by_stage = {f.stage: f for f in forecasts}
    for stage in plan.writers("generations"):
        forecast = by_stage[stage.name]
        plugin = get("models", stage.params["model"]["plugin"])
        if forecast.action == "restore" or plugin.name == "recorded":
            continue
        record = read_record(root, plan.spec, stage.name).get(ANSWERS)
        if not isinstance(record, dict):
            if forecast.action != "unchanged":
                yield KeptAnswers(stage.name, why=(say.KNOWN_AFTER_FIRST_RUN,))
        elif forecast.action == "unchanged":
            yield _all_stored(stage, record)
        else:
            yield _CacheHitCounter(stage, forecast, record, find_engine(plugin.module), root / settings.store, settings.libraries).result()


def total(stages: Sequence[KeptAnswers]) -> KeptAnswers:
    comparable = [stage for stage in stages if stage.computed is not None]
    stored, releases, computed = (
        sum((Counter(counts) for counts in column), Counter[str]())
        for column in ([s.stored for s in comparable], [s.releases for s in comparable], [s.computed or {} for s in comparable])
    )
    return KeptAnswers("", stored, releases, computed)


def _all_stored(stage: PlannedStage, record: Mapping[str, Any]) -> KeptAnswers:
    stored: Counter[str] = Counter()
    releases: Counter[str] = Counter()
    for origin in record["from"]:
        for kind, n in origin["parts"].items():
            stored[family_of(kind)] += n
            releases[str(origin["qualm"])] += n
    return KeptAnswers(stage.name, stored, releases, {})


@dataclass
class _CacheHitCounter:
    """Counter of reusable stored parts for one stage whose inputs may have changed."""

    stage: PlannedStage
    forecast: Forecast
    record: Mapping[str, Any]
    engine: Engine
    store: Path
    policy: str

    def result(self) -> KeptAnswers:
        params, before = (_comparable(p) for p in (self.stage.params, self.record["params"]))
        inputs = {r.what for r in self.forecast.reasons if r.kind in ("input", "missing", "waiting")}
        model = str(self.stage.inputs.get("model"))
        other_questions = [what for what in inputs if not what.startswith(f"{model} ")]
        if other_questions:
            return KeptAnswers(self.stage.name, why=(say.KNOWN_AFTER_RUN.format(why=other_questions[0]),))
        if inputs or params["model"] != before["model"] or self.record["engine"] != self.engine.identity:
            return KeptAnswers(self.stage.name, {}, {}, self._families(self._requested(params)), (say.OTHER_MODEL,))
        rest = [{k: v for k, v in p.items() if k not in PER_PART} for p in (params, before)]
        if rest[0] != rest[1] or self.record["seed"] != self.stage.seed:
            return KeptAnswers(self.stage.name, why=(say.KNOWN_AFTER_RUN.format(why=say.OTHER_SAMPLES),))
        return self._counted(params, before)

    def _counted(self, params: Mapping[str, Any], before: Mapping[str, Any]) -> KeptAnswers:
        old, new = before["variants"], params["variants"]
        same_variants = {name for name in new if name in old and old[name] == new[name]}
        requested, comparable = self._requested(params), self._requested(params, same_variants)
        affected = _affected(params, before)
        stored: Counter[str] = Counter()
        releases: Counter[str] = Counter()
        why: dict[str, None] = {}
        for origin in self.record["from"]:
            fault = self._fault(origin)
            if fault:
                why[fault] = None
                continue
            # By part: raising one component, such as sampling, leaves what does not depend on it.
            mine = [kind for kind in origin["parts"] if self.engine.accepts(kind, origin["versions"] or {})]
            for kind in mine:
                # Never more than is still asked for: folders may overlap, and variants may have been dropped.
                n = 0 if kind in affected else min(origin["parts"][kind], comparable[kind] - stored[kind])
                stored[kind] += n
                releases[str(origin["qualm"])] += n
        # After all folders are counted: a signal counts for nothing if the answers it is about are computed anew.
        for kind in list(stored):
            if self._depends(kind, stored, comparable):
                releases.subtract({next(iter(releases)): stored[kind]})
                stored[kind] = 0
        computed = {kind: n - stored[kind] for kind, n in requested.items()}
        # The unary plus drops releases of which nothing is left.
        return KeptAnswers(self.stage.name, self._families(stored), +releases, self._families(computed), tuple(why))

    def _depends(self, kind: str, stored: Mapping[str, int], comparable: Mapping[str, int]) -> bool:
        """Return whether signal `kind` is about answers of which no stored part is reusable.

        `stored` and `comparable` count reusable and requested parts: {kind: count}.
        """
        about = [] if kind == "draw" else ["draw" if draw_of(one) else one for one in subjects_of(kind, draws=1)]
        return any(stored.get(one, 0) == 0 and comparable.get(one, 0) for one in about)

    def _fault(self, origin: Mapping[str, Any]) -> str:
        """Return why a store folder with this record of origin does not count; "" if it does."""
        folder = self.store / str(origin["folder"])
        version, recorded = origin["qualm"], origin["libraries"] or {}
        if not folder.is_dir():
            return say.VERSION_NOT_STORED.format(version=version)
        if why := refusal(folder):
            return say.VERSION_REFUSED.format(version=version, why=why)
        if not are_equal_versions(self.policy, recorded, self.engine.libraries):
            names = [n for n in sorted({*recorded, *self.engine.libraries}) if recorded.get(n) != self.engine.libraries.get(n)]
            moved = ", ".join(f"{n} {recorded.get(n)} -> {self.engine.libraries.get(n)}" for n in names)
            return say.VERSION_NOT_COUNTED.format(version=version, changes=moved, policy=self.policy)
        return ""

    def _requested(self, params: Mapping[str, Any], variants: set[str] | None = None) -> Counter[str]:
        cells: Counter[str] = Counter()
        cells_by_variant = self.record["asked"]
        # A variant that has never been asked has as many questions as the clean samples, as far as can be known.
        usual: Mapping[str, int] = cells_by_variant.get("clean") or next(iter(cells_by_variant.values()), {})
        for name in params["variants"] if variants is None else variants:
            cells.update(cells_by_variant.get(name, usual))
        requested = Counter({ANSWER: cells["open"], OPTIONS: cells["choice"]})
        if params.get(IN_WORDS):
            requested = Counter({ANSWER: cells["open"] + cells["choice"]})
        signals = [kind for kind, columns in PARTS.items() if is_signal(kind) and set(params["needs"]).intersection(columns)]
        draws = params.get("draws", 0) if DRAWS in params["needs"] else 0
        inside: Counter[str] = Counter()
        for need in filter(is_internal, params["needs"]):
            what = parse_internal(need)
            of_choices = cells["choice"] if what.of_prompt else 0
            inside[what.signal] += cells["open"] * (draws if what.drawn else 1) + of_choices
        return requested + inside + Counter({**dict.fromkeys(signals, cells["open"]), "draw": cells["open"] * draws})

    def _families(self, counts: Mapping[str, int]) -> dict[str, int]:
        families: Counter[str] = Counter()
        for kind, n in counts.items():
            families[family_of(kind)] += n
        return {family: families[family] for family in FAMILIES if families[family]}


def _comparable(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return stage parameters as they are after a JSON round trip, to compare them."""
    compiled: dict[str, Any] = to_mappings(to_lists(to_mappings(params)))
    return compiled


def _affected(params: Mapping[str, Any], before: Mapping[str, Any]) -> set[str]:
    """Return the kinds of answers and signals that changed decoding settings invalidate."""
    other = {name for name in PER_PART if params.get(name) != before.get(name)}
    affected: set[str] = set()
    inside = [parse_internal(need) for need in params["needs"] if is_internal(need)]
    if "max_new_tokens" in other:
        affected |= {*PARTS, "draw", *(one.signal for one in inside if not one.of_prompt)} - {OPTIONS}
    if other & {"temperature", "top_p", "top_k"}:
        affected |= {"draw", *SHOWN_DRAWS, *(one.signal for one in inside if one.drawn)}
    if "draws" in other:
        affected |= SHOWN_DRAWS
    return affected
