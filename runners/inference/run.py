"""Answers of a model to every sample of some datasets under every variant, from the store or computed now.

All prompts and images are digested and looked up in the store; missing answers are computed in planned batches
(`qualm.runners.inference.batch_plan`), each stored before the next begins; tables are made from the store alone. A killed run therefore
resumes, and its tables equal those of an undisturbed one. The stages `infer` and `finetune` use this.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry import NO_JSON_ANSWER
from qualm.registry.sample import GENERATIONS, GREEDY
from qualm.runners.contracts.models import ANSWER, COLUMNS, OPTIONS, PARTS, Remote, draw_of, internal_of, is_signal
from qualm.runners.contracts.parts import read_top_logprobs, read_top_tokens
from qualm.runners.data.answers import LostError, Store
from qualm.runners.data.dataset import DatasetFolder, Variant
from qualm.runners.data.maintenance import tidy
from qualm.runners.inference import batch_plan, driver
from qualm.runners.inference.batch_size import choose_batch_sizes
from qualm.runners.inference.keys import CHUNK_CELLS, answer_origins, stored_keys
from qualm.runners.inference.local import answer_all, answer_share
from qualm.runners.inference.remote import ask_all
from qualm.runners.inference.requests import Asker, SampleVariant
from qualm.runners.inference.rounds import ask_in_batches, warn_of_open_batches
from qualm.runners.inference.thoughts import read_thoughts
from qualm.runners.prompts.labelled import read_json_answer
from qualm.runners.runtime.code_digest import find_engine
from qualm.runners.runtime.settings import is_first
from qualm.runners.runtime.stage import ANSWERS, Stage, StageError, record_answer_origins

_FIELD = {
    "text": "text",
    "said_confidence": "text",
    "token_logprobs": "logprobs",
    "token_entropies": "entropies",
    "option_logits": "numbers",
}
"""Column -> field of the part that fills it; `logprobs` by default."""
_READERS: dict[str, tuple[list[str], Callable[..., Any]]] = {
    "top_logprobs": (["logprobs", "numbers"], read_top_logprobs),
    "top_tokens": (["text"], read_top_tokens),
    **dict.fromkeys(("p_true", "p_true_sampling", "p_yes"), (["numbers"], lambda numbers: next(iter(numbers or ()), None))),
}
"""Column -> fields of the part that its value is read from, and the function that reads it."""
_LEAVE_OUT = "Correct the data, or leave these samples out by `where:` of the dataset, such as `sample_id not in ('ID', 'ID')`"


def generations_table(asker: Asker, dataset_index: int, cells: Sequence[SampleVariant], store: Store) -> pa.Table:
    """Return the GENERATIONS of one dataset from the store; LostError if an answer is gone.

    Args:
        cells: of the dataset, in the order of the rows.
    """
    mine = [cells[at : at + CHUNK_CELLS] for at in range(0, len(cells), CHUNK_CELLS)]
    return pa.concat_tables([GENERATIONS.empty_table(), *(_rows(asker, dataset_index, some, store) for some in mine)])


def _rows(asker: Asker, number: int, cells: Sequence[SampleVariant], store: Store) -> pa.Table:
    samples = asker.datasets[number].samples
    parts = [[part for part in asker.parts(cell.options) if not internal_of(part)] for cell in cells]
    stored = store.take(
        stored_keys(asker, store, [(cell.place, part) for cell, needed in zip(cells, parts, strict=True) for part in needed])
    )
    rows: dict[str, list[Any]] = {name: [] for name in ("sample_id", "variant", "draw", "input_digest")}
    filled: dict[str, list[tuple[int, int]]] = {name: [] for name in COLUMNS}  # column -> (row, place among the parts)
    at = 0
    sources: list[tuple[int, int, str]] = []  # (row, place among the parts, name) of every answer
    for cell, needed in zip(cells, parts, strict=True):
        draws = [GREEDY, *(draw for part in needed if (draw := draw_of(part)))]
        greedy = row = len(rows["draw"])
        rows["draw"] += draws
        rows["sample_id"] += [samples[cell.place.row]["sample_id"]] * len(draws)
        rows["variant"] += [asker.variants[cell.place.variant].name] * len(draws)
        rows["input_digest"] += [cell.input_digest] * len(draws)
        for part in needed:
            drawn = draw_of(part) > 0
            row += drawn
            if drawn or not is_signal(part):
                sources.append((row if drawn else greedy, at, part))
            for column in PARTS[ANSWER if drawn else part]:
                filled[column].append((row if drawn else greedy, at))
            at += 1
    total = len(rows["draw"])
    columns = {name: pa.array(values, GENERATIONS.field(name).type) for name, values in rows.items()}
    thoughts = read_thoughts(stored, sources, total, asker.model)
    for name in COLUMNS:
        wanted_column = name == "text" or name in asker.needs
        columns[name] = thoughts.select_tokens(name, _column(name, filled[name] if wanted_column else [], total, stored))
    columns |= thoughts.columns()
    if asker.answers_are_json(number):
        columns |= _json_answers(asker, columns)
    columns["verdict"] = pa.nulls(total, pa.float64())  # only logs have one
    asker.stage.count(**thoughts.counts())
    return pa.table([columns[field.name] for field in GENERATIONS], schema=GENERATIONS)


def _json_answers(asker: Asker, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return {`text`: `answer` of each JSON reply, `no_answer`: reasons}; count unread ones."""
    replies, reasons = columns["text"].to_pylist(), columns["no_answer"].to_pylist()
    answers = [None if reply is None else read_json_answer(reply) for reply in replies]
    unread = [reply is not None and answer is None for reply, answer in zip(replies, answers, strict=True)]
    asker.stage.count(**({"answers without the JSON that was asked for": sum(unread)} if any(unread) else {}))
    why_none = [NO_JSON_ANSWER if lost else reason for lost, reason in zip(unread, reasons, strict=True)]
    return {"text": pa.array(answers, pa.string()), "no_answer": pa.array(why_none, pa.string())}


def _column(name: str, filled: Sequence[tuple[int, int]], total: int, stored: pa.Table) -> pa.Array:
    """Return a column of GENERATIONS from (row, index in `stored`) pairs; null elsewhere."""
    kind = GENERATIONS.field(name).type
    if not filled:
        return pa.nulls(total, kind)
    row, place = np.array(filled).T
    if name in _READERS:
        fields, read = _READERS[name]
        values: list[Any] = [None] * total
        for r, part in zip(row.tolist(), stored.select(fields).take(pa.array(place)).to_pylist(), strict=True):
            values[r] = read(*(part[field] for field in fields))
        return pa.array(values, kind)
    # An index with holes: masked places become null, with no loop over rows in Python.
    source = np.full(total, -1)
    source[row] = place
    column = stored[_FIELD.get(name, "logprobs")].combine_chunks()
    return column.take(pa.array(source, mask=source < 0)).cast(kind)


_LATE_SECONDS = 90.0
"""Time in which a shared file system shows what another machine has written."""


def answer_tables(
    model: Any,
    module: str,
    datasets: list[DatasetFolder],
    variants: list[Variant],
    needs: frozenset[str],
    stage: Stage,
    label: str = "",
    share_with_processes: bool = False,
    write_more: Callable[[Asker, Sequence[SampleVariant], Store], None] | None = None,
    opener: str = "",
) -> list[pa.Table]:
    """Have a model answer all samples; return a table of the answers per dataset.

    Args:
        model: a `qualm.runners.contracts.models.Model` or `Remote`.
        module: dotted name of its plugin, whose code is part of every key.
        needs: columns, and `draws`.
        stage: provides decoding parameters, seed, settings and counters.
        label: the model's name in the spec, for `qualm cache du`.
        share_with_processes: share the work with the stage's other processes, as the settings say; all but the first get no tables.
        write_more: called with the stored answers by the same process, to make other outputs.
        opener: `MODULE:FUNCTION` by which workers of a cluster open the same; without it all is answered here.

    Raises:
        StageError: samples that cannot be asked; all others are answered and kept.
    """
    asker = Asker(model, find_engine(module), datasets, variants, needs, stage)
    store = open_store(asker, {"label": label, "plugin": module})
    # One process surveys and plans; were each to do so, they might see different states of the store.
    if share_with_processes and not is_first():
        if not isinstance(model, Remote):
            answer_share(asker, store)
        return []
    cells, broken = asker.survey()
    lookup = batch_plan.look_up(asker, cells, store)
    _count(stage, lookup)
    try:
        _answer(asker, store, cells, lookup, share_with_processes, opener)
    except BaseException:
        if share_with_processes:
            store.refresh()
            record_answer_origins(stage, answer_origins(asker, cells, store))  # for `qualm plan`
        raise
    if broken:
        more = f" and {len(broken) - 10} more" if len(broken) > 10 else ""
        lines = "; ".join(broken[:10]) + more
        raise StageError(f"{len(broken)} samples cannot be asked; all others are answered and kept: {lines}. {_LEAVE_OUT}")
    if share_with_processes:
        _wait_for_others(asker, lookup, store)
    store.refresh()
    if (
        not share_with_processes and (left := batch_plan.look_up(asker, cells, store)).missing
    ):  # signals about an answer that somebody else wrote first
        _answer(asker, store, cells, left, share_with_processes)
    try:
        tables = [
            generations_table(asker, number, [c for c in cells if c.place.dataset == number], store) for number in range(len(datasets))
        ]
        if write_more is not None:
            write_more(asker, cells, store)
    except LostError as error:
        raise StageError(f"{error}; run it again, and they are computed again") from error
    if share_with_processes:
        stage.facts[ANSWERS] = answer_origins(asker, cells, store)
    # Only now: until the tables stand, a kill must find the plan again.
    batch_plan.remove_plan(stage)
    tidy(store.folder)
    return tables


def open_store(asker: Asker, about: Mapping[str, str]) -> Store:
    """Open the answer store for an asker's model, engine and libraries."""
    settings, own = asker.stage.settings, asker.engine
    return Store(
        Path(settings.store),
        asker.model.digest,
        own.identity,
        about,
        asker.stage.key,
        settings.workers,
        own.libraries,
        own.changed_versions(),
        settings.libraries,
    )


def _answer(
    asker: Asker, store: Store, cells: Sequence[SampleVariant], lookup: batch_plan.Lookup, share_with_processes: bool, opener: str = ""
) -> None:
    """Compute all missing answers, here, on a server or on a cluster, and store them."""
    elsewhere = bool(opener and lookup.missing) and driver.runs_on_cluster(asker.stage.settings, asker.model)
    if isinstance(asker.model, Remote):  # by one process, with as many requests at a time as the server takes
        if asker.model.client.server.batch:
            ask_in_batches(asker, store, lookup.missing)
            return
        if lookup.missing:
            warn_of_open_batches(asker.stage.settings.store, asker.stage.key)
        if elsewhere:
            driver.Answering(asker, store, driver.server_shards(asker, lookup.missing), opener).run()
        else:
            ask_all(asker, store, lookup.missing)
        return
    work = batch_plan.Work(())
    if lookup.missing:
        work = batch_plan.PlanFile(asker, cells).remaining_work(
            asker, lookup.missing, store, choose_batch_sizes(asker, store, share_with_processes)
        )
    if elsewhere:
        driver.Answering(asker, store, work.batches, opener).run()
    else:
        answer_all(asker, store, work, share_with_processes)


def _count(stage: Stage, lookup: batch_plan.Lookup) -> None:
    """Count computed and stored parts of answers by kind, and repeats, in the stage's record."""
    computed: dict[str, int] = {}
    for task in lookup.missing:
        for part in task.parts:
            computed[part] = computed.get(part, 0) + 1
    for kind, belongs in _KINDS.items():
        now, before = (sum(n for part, n in counts.items() if belongs(part)) for counts in (computed, lookup.stored))
        if now or before:
            stage.count(**{f"{kind} computed": now, f"{kind} stored": before})
    if lookup.repeats:
        stage.count(**{"same as another": lookup.repeats})


_KINDS: dict[str, Callable[[str], bool]] = {
    "answers": lambda part: part in (ANSWER, OPTIONS),
    "draws": lambda part: draw_of(part) > 0,
    "signals": is_signal,
}


def _wait_for_others(asker: Asker, lookup: batch_plan.Lookup, store: Store) -> None:
    """Wait until the answers of other processes are visible; StageError after 90 seconds."""
    needed = [(task.cell.place, part) for task in lookup.missing for part in task.parts]
    deadline = time.monotonic() + _LATE_SECONDS
    while not store.has(keys := stored_keys(asker, store, needed)).all():
        if time.monotonic() > deadline:
            raise StageError(
                f"{int((~store.has(keys)).sum())} answers that other processes computed are not in {store.folder}; "
                "all machines must see the same folder there (setting `store`); run it again to go on"
            )
        time.sleep(0.2)
        store.refresh()
