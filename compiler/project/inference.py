"""Estimate answers, memory and time of the inference stages in a plan: the end of `qualm plan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.model_sizes import Size, size_of_folder, size_of_hub_model
from qualm.compiler.project.pending_questions import questions_of_variants
from qualm.compiler.project.rebuilds import ACTIVE, Forecast
from qualm.compiler.project.resources import (
    EFFICIENCY,
    Gpu,
    MemoryEstimate,
    Workload,
    largest_batch,
    measured_seconds,
    memory,
    parse_gpu,
    seconds,
)
from qualm.compiler.spec import sentences as say
from qualm.registry.plugins.internals import GRADIENT, HIDDEN, PREVIOUS, Internal, is_internal, parse_internal
from qualm.runners.prompts.thinking import thinking_budget
from qualm.runners.runtime.settings import Settings

HALF, DOUBLE = 2, 8
"""Bytes of a stored number of hidden states or of a token."""
MAX_BATCH = 256
"""Maximum batch of an estimate, in questions, as in `qualm.runners.inference.batch_size`."""


@dataclass(frozen=True)
class StageEstimate:
    stage: str
    model: str
    samples: int | None
    """Questions under all variants; None if a dataset is not built yet."""
    batch: int = 0
    memory: MemoryEstimate | None = None
    seconds: float | None = None
    """Time of the whole stage, or of one question if `samples` is None."""
    by: str = ""
    """Source of the time: `measured`, or a card's name."""
    why: str = ""
    arithmetic: tuple[str, ...] = field(default=())
    stored: float = 0.0
    """Bytes of stored hidden states, of the whole stage or of one open question; on disk twice: in the store and in the table."""

    def as_json(self) -> dict[str, Any]:
        facts = asdict(self)
        if self.memory is not None:
            facts["memory"]["total"] = self.memory.total
        return facts


@dataclass(frozen=True)
class Counted:
    opened: int
    chosen: int
    """Multiple-choice questions: one prefill, no decoding."""

    @property
    def all(self) -> int:
        return self.opened + self.chosen


def estimate(plan: Plan, forecasts: Sequence[Forecast], root: Path, settings: Settings, gpu: str | None = None) -> Iterator[StageEstimate]:
    """Yield memory and time per stage that would run a local model (`hf_vlm`).

    Args:
        gpu: a card instead of the settings'.

    Raises:
        ProjectError: the card is unknown.
    """
    name = gpu or settings.gpu
    on = parse_gpu(name) if name else None
    active = {f.stage for f in forecasts if f.action in ACTIVE}
    for stage in plan.stages:
        if "generations" in stage.outputs and stage.name in active and stage.params["model"]["plugin"] == "hf_vlm":
            yield _estimate(plan, stage, root, settings, on)


def _estimate(plan: Plan, stage: PlannedStage, root: Path, settings: Settings, on: Gpu | None) -> StageEstimate:
    chosen = stage.params["model"]
    counted = _count(stage, root)
    samples = None if counted is None else counted.all
    size = _model_size(chosen["args"], stage.inputs, root, plan)
    if isinstance(size, str):
        return StageEstimate(stage.name, chosen["label"], samples, why=size)
    needs = frozenset(stage.params["needs"])
    longest = stage.params["max_new_tokens"] + thinking_budget(chosen["args"].get("thinking"))
    work = Workload(needs, stage.params.get("draws", 0), longest, size.image_tokens)
    dtype, quantised = chosen["args"].get("dtype") or "float32", chosen["args"].get("quantization") or "none"
    room = on.memory if on else 0.0
    fits = min(max(1, largest_batch(size, work, room, dtype, quantised)), MAX_BATCH) if on else settings.batch
    batch = settings.batch_size or fits
    # No batch is larger than the stage: memory would be overestimated.
    batch = min(batch, samples or batch)
    taken = memory(size, work, batch, dtype, quantised)
    lines = list(_memory_lines(size, work, batch, dtype, quantised, taken))
    if on is not None and taken.total > on.memory:
        lines.append(say.TOO_LARGE.format(memory=_gib(on.memory), gpu=on.name))
    spent, by = None, ""
    rate = measured_seconds(root, plan.spec, stage.name)
    if rate is not None:
        spent, by = rate * (samples or 1), "measured"
        lines.append(say.TIME_MEASURED.format(seconds=rate))
    elif on is not None:
        spent, by = _time(size, work, batch, dtype, quantised, on, counted, lines), on.name
    stored = 0.0
    if internals := [parse_internal(need) for need in sorted(needs) if is_internal(need)]:
        states = [one for one in internals if one.kind == HIDDEN]
        answers = {one.column: work.draws if one.drawn else 1 for one in states}
        of_prompt = sum(one.of_prompt for one in states)
        vectors = sum(answers.values()) if counted is None else counted.opened * sum(answers.values()) + counted.chosen * of_prompt
        stored = float(vectors * size.hidden * HALF)
        if states:
            what = ", ".join(f"{column} x {n}" for column, n in answers.items())
            each = say.AN_OPEN_QUESTION if counted is None else say.N_VECTORS.format(n=vectors)
            lines.append(say.HIDDEN_STATES_SIZE.format(columns=what, units=size.hidden, each=each, size=_gib(stored)))
        for line, width in ((say.FLOAT16_NUMBERS, HALF), (say.FLOAT64_NUMBERS, DOUBLE)):
            others = [one for one in internals if one.kind != HIDDEN and one.exact == (width == DOUBLE)]
            if others:
                numbers = sum((work.draws if one.drawn else 1) * _numbers(one, longest, size.layers) for one in others)
                more = float(numbers * width * (1 if counted is None else counted.opened))
                what = ", ".join(one.column for one in others)
                lines.append(line.format(columns=what, n=numbers, size=_gib(more)))
                stored += more
    return StageEstimate(stage.name, chosen["label"], samples, batch, taken, spent, by, "", tuple(lines), stored)


def _numbers(column: Internal, tokens: int, layers: int) -> int:
    """Return how many numbers a column stores for an answer of `tokens` tokens."""
    return 1 if column.kind == GRADIENT else tokens * layers if column.place == PREVIOUS else tokens


def _time(size: Size, work: Workload, batch: int, dtype: str, quantised: str, on: Gpu, counted: Counted | None, lines: list[str]) -> float:
    open_ended = seconds(size, work, batch, dtype, on, quantised)
    choice = seconds(size, Workload(frozenset(), 0, 1, work.image_tokens), batch, dtype, on, quantised)
    lines.append(
        say.TIME_OPEN.format(
            gpu=on.name,
            prefill=open_ended.prefill,
            decode=open_ended.decode,
            operations=open_ended.operations,
            efficiency=EFFICIENCY,
            rate=on.rate(dtype),
            bytes=open_ended.traffic,
            bandwidth=on.traffic,
            launches=open_ended.launches,
        )
    )
    lines.append(say.TIME_CHOICE.format(seconds=choice.total))
    if counted is None:
        return open_ended.total
    return counted.opened * open_ended.total + counted.chosen * choice.total


def _memory_lines(size: Size, work: Workload, batch: int, dtype: str, quantised: str, taken: MemoryEstimate) -> Iterator[str]:
    form = dtype if quantised == "none" else f"{quantised}, else {dtype}"
    yield say.MODEL_SIZE.format(language=size.language / 1e9, vision=size.vision / 1e9, source=size.source)
    yield say.WEIGHTS_SIZE.format(size=_gib(taken.weights), form=form)
    yield say.CACHE_SIZE.format(
        kib=size.cache_bytes(dtype) / 1024,
        layers=size.layers,
        width=size.key_width,
        batch=batch,
        prompt=work.prompt,
        answers=work.answers,
        tokens=work.max_new_tokens,
        copy=say.AND_A_COPY if work.follow else "",
        size=_gib(taken.cache),
    )
    yield say.ACTIVATIONS_SIZE.format(activations=_gib(taken.activations), logits=_gib(taken.logits), total=_gib(taken.total))


def _gib(count: float) -> str:
    return f"{count / 2**30:.3g} GiB"


def _model_size(args: Mapping[str, Any], inputs: Mapping[str, Any], root: Path, plan: Plan) -> Size | str:
    """Return the size of the model that a stage runs, or as text why it is unknown.

    A fine-tuned model that is not made yet has the size of its base.
    """
    if args.get("hub"):
        return size_of_hub_model(args["hub"]) or say.MODEL_NOT_PUBLISHED.format(model=args["hub"])
    bases_of = {stage.outputs["model"]: stage.inputs.get("models", {}) for stage in plan.writers("model")}
    places = [str(p) for p in (args.get("artifact"), inputs.get("model"), *inputs.get("beneath", {}).values()) if p]
    why = say.MODEL_NOT_HERE.format(path=places[0]) if places else say.MODEL_FILES_UNKNOWN
    for place in places:  # grows by the bases of fine-tunes
        places += [base for base in bases_of.get(place, {}).values() if base not in places]
        if (root / place / "config.json").is_file():
            size = size_of_folder(root / place)
            if isinstance(size, Size):
                return replace(size, source=size.source.replace(f"{root}/", ""))
            why = size
    return why


def _count(stage: PlannedStage, root: Path) -> Counted | None:
    tables = questions_of_variants(stage, root, ["choices"])
    if tables is None:
        return None
    import pyarrow.compute as pc

    chosen = sum(int(pc.sum(pc.greater(pc.fill_null(pc.list_value_length(t["choices"]), 0), 0)).as_py() or 0) for t in tables)
    opened = sum(t.num_rows for t in tables) - chosen
    return Counted(opened, chosen)
