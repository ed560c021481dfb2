"""`qualm run --again`: compute answers anew, and say which of them came out differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.rebuilds import Forecast
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.registry.sample import GREEDY
from qualm.registry.system.console import Console

if TYPE_CHECKING:
    from qualm.runners.data.answers import Store

MAX_LINES = 10
"""Answers that are printed; the others are counted."""
Answer = tuple[str, str, str, str]
"""Model, dataset, sample and variant."""


@dataclass(frozen=True)
class AnswerSelection:
    """Samples, variants and models of which `--again` recomputes answers; () means all."""

    samples: Sequence[str] = ()
    variants: Sequence[str] = ()
    models: Sequence[str] = ()


class Recomputation:
    """Answers of a finished spec to be computed again and compared with the old ones."""

    def __init__(self, project: Project, plan: Plan, forecasts: Iterable[Forecast], selection: AnswerSelection) -> None:
        """Find the selected answers; ProjectError if they are unknown, out of date, or none.

        Raises:
            ProjectError: an unknown sample, variant or model; answers that are out of date or recorded.
        """
        self._project, self._plan = project, plan
        waiting = {forecast.stage for forecast in forecasts if forecast.action != "unchanged"}
        every = list(plan.writers("generations"))
        by_model = {str(stage.params["model"]["label"]): stage for stage in every}
        for model in selection.models:
            if model not in by_model:
                raise ProjectError(f"no model of '{plan.spec}' that answers questions is '{model}'; {nearest(model, by_model)}")
        stages = [stage for stage in every if not selection.models or stage.params["model"]["label"] in selection.models]
        if late := [stage.name for stage in stages if stage.name in waiting]:
            raise ProjectError(f"{plan.spec}: {late[0]} is not up to date; run `qualm run {plan.spec}` first, then --again")
        self._check_samples(stages, selection.samples)
        variants = {variant["variant"] for stage in stages for variant in stage.params["variants"]}
        for variant in selection.variants:
            if variant not in variants:
                raise ProjectError(f"no variant of '{plan.spec}' is '{variant}'; {nearest(variant, variants)}")
        self._found: list[tuple[PlannedStage, Store, list[bytes]]] = []
        self._places: set[Answer] = set()
        self._counts = Counter[str]()
        self._is_served = False
        with chdir(project.root):  # where the paths of stages begin
            for stage in stages:
                self._look_up(stage, selection)
        if not self._found:
            raise ProjectError(f"{plan.spec}: no answer to recompute: none is stored here, or all are recorded by another tool")
        self._before = self._read()

    @property
    def stages(self) -> list[str]:
        return [stage.name for stage, _, _ in self._found]

    def announce(self, out: Console) -> None:
        """Print how many answers will be recomputed, and whether they may differ."""
        parts = ", ".join(f"{n:,} {name}" for name, n in self._counts.items())
        out.print(say.RECOMPUTED_ANSWERS.format(counts=parts, stages=escape(", ".join(self.stages))))
        out.print(say.SERVED_ANSWERS_DIFFER if self._is_served else say.LOCAL_ANSWERS_REPEAT, soft_wrap=True)

    def forget(self) -> None:
        """Remove the selected answers from the store, so that the next run recomputes them."""
        with chdir(self._project.root):
            for _, store, keys in self._found:
                store.forget(keys)

    def report(self, out: Console) -> None:
        """Print how many recomputed answers are unchanged, and those that changed."""
        after = self._read()
        changed = [place for place in sorted(self._before) if after.get(place) != self._before[place]]
        n, n_changed = len(self._before), len(changed)
        out.print(say.RECOMPUTED_SUMMARY.format(answers=say.count(n, "answer"), same=n - n_changed, changed=n_changed))
        for place in changed[:MAX_LINES]:
            old, new = self._before[place], after.get(place, {})
            greedy = f"{old.get(GREEDY)!r} -> {new.get(GREEDY)!r}" if old.get(GREEDY) != new.get(GREEDY) else say.SAME_GREEDY_ANSWER
            others = sum(new.get(draw) != text for draw, text in old.items() if draw != GREEDY)
            sampled = say.SAMPLED_ANSWERS_CHANGED.format(changed=others, n=len(old) - 1) if len(old) > 1 else ""
            out.print(escape(f"  {' · '.join(place)}: {greedy}{sampled}"), soft_wrap=True)
        if len(changed) > MAX_LINES:
            out.print(say.MORE_LINES.format(n=len(changed) - MAX_LINES))

    def _check_samples(self, stages: Sequence[PlannedStage], samples: Sequence[str]) -> None:
        import pyarrow.parquet as pq

        folders = {folder for stage in stages for folder in stage.inputs["datasets"].values()}
        files = [self._project.root / folder / "samples.parquet" for folder in sorted(folders)]
        ids = {i for file in files for i in pq.read_table(file, columns=["sample_id"])[0].to_pylist()}
        for sample in samples:
            if sample not in ids:
                spec = self._plan.spec
                raise ProjectError(
                    f"no sample of '{spec}' is '{sample}'; {nearest(sample, ids, 3, f'`qualm show {spec} --failures 20` prints some')}"
                )

    def _look_up(self, planned: PlannedStage, selection: AnswerSelection) -> None:
        from qualm.runners.contracts.models import Remote, draw_of, is_signal
        from qualm.runners.inference.keys import UNKNOWN, stored_keys
        from qualm.runners.inference.open_inference import open_inference
        from qualm.runners.inference.requests import Asker
        from qualm.runners.inference.run import open_store
        from qualm.runners.runtime.code_digest import find_engine
        from qualm.runners.runtime.stage import make_stage

        stage = make_stage(f"{self._plan.spec}/{planned.name}", planned.as_json(), self._project.settings)
        job = open_inference(stage)
        label = str(stage.params["model"]["label"])
        if hasattr(job.model, "lookup"):
            return
        rows = [
            [row for row, sample in enumerate(dataset.samples) if not selection.samples or sample["sample_id"] in selection.samples]
            for dataset in job.datasets
        ]
        variants = [variant for variant in job.variants if not selection.variants or variant.name in selection.variants]
        if not any(rows) or not variants:
            return
        datasets = [dataset.only(some) for dataset, some in zip(job.datasets, rows, strict=True)]
        asker = Asker(job.model, find_engine(job.module), datasets, variants, job.needs, stage)
        cells, _ = asker.survey()
        store = open_store(asker, {"label": label, "plugin": job.module})
        wanted = [(cell.place, part) for cell in cells for part in asker.parts(cell.options)]
        keys = stored_keys(asker, store, wanted)
        kept = [key for key in dict.fromkeys(keys) if key != UNKNOWN]
        if not kept:
            return
        for _, part in wanted:
            self._counts["sampled answers" if draw_of(part) else "signals" if is_signal(part) else "answers"] += 1
        self._is_served |= isinstance(job.model, Remote)
        self._places |= {(label, datasets[c.place.dataset].name, asker.name(c.place), variants[c.place.variant].name) for c in cells}
        self._found.append((planned, store, kept))

    def _read(self) -> dict[Answer, dict[int, Any]]:
        """Return {answer: {draw number: text or chosen option}} of the selected answers."""
        return {place: draws for stage, _, _ in self._found for place, draws in self._rows(stage) if place in self._places}

    def _rows(self, stage: PlannedStage) -> Iterator[tuple[Answer, dict[int, Any]]]:
        import pyarrow.parquet as pq

        for dataset, path in stage.outputs["generations"].items():
            draws: dict[Answer, dict[int, Any]] = {}
            for row in pq.read_table(
                self._project.root / path, columns=["sample_id", "variant", "draw", "text", "option_logits"]
            ).to_pylist():
                logits = row["option_logits"]
                said = row["text"] if logits is None else f"option {max(range(len(logits)), key=logits.__getitem__) + 1}"
                place = (str(stage.params["model"]["label"]), dataset, row["sample_id"], row["variant"])
                draws.setdefault(place, {})[row["draw"]] = said
            yield from draws.items()
