"""Audit the answer store: find what stages ask for, compute a sample of it again, and compare.

Parts are computed as in inference, from the same requests in batches, and kept in memory. Only the mark of a failed folder is written.
"""

from __future__ import annotations

import gc
import hashlib
import heapq
import math
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

from qualm.registry.plugins.registry import PluginError
from qualm.runners.contracts.models import ModelError, Part, Remote, draw_of
from qualm.runners.contracts.parts import read_top_tokens
from qualm.runners.data.answers import StoredAnswers, open_segments, to_rows
from qualm.runners.data.maintenance import Holding, list_holdings
from qualm.runners.inference import batch_plan
from qualm.runners.inference.batch_size import choose_batch_sizes
from qualm.runners.inference.devices import check_device
from qualm.runners.inference.keys import UNKNOWN, stored_keys
from qualm.runners.inference.local import answer_all
from qualm.runners.inference.open_inference import open_inference
from qualm.runners.inference.requests import Asker, SampleVariant
from qualm.runners.runtime.code_digest import find_engine
from qualm.runners.runtime.records import RecordError
from qualm.runners.runtime.stage import Stage, StageError

ROWS = 2000
"""Number of random samples per stage whose answers are looked up."""
_CELLS = 1024
FAULTS = (StageError, ModelError, RecordError, PluginError, OSError, RuntimeError, ValueError, ImportError)
"""Errors by which answers cannot be computed here: missing weights, devices, files, libraries."""


@dataclass
class PartResult:
    """Counts of recomputed parts of one kind in one folder, by how they compare."""

    stored: int
    dtype: str = ""
    checked: int = 0
    equal: int = 0
    rounding: int = 0
    branched: int = 0
    differing: int = 0
    largest: float = 0.0
    tokens: int = 0
    example: str = ""

    @property
    def failed(self) -> bool:
        return self.differing > 0 or too_many_branches(self.branched, self.checked, self.tokens, self.dtype)

    @property
    def apart(self) -> int:
        """Return the number of differing parts, plus the branched ones if the result failed."""
        return self.differing + (self.branched if self.failed else 0)

    def take(self, result: PartDifference, computed: Part, where: str) -> None:
        self.checked += 1
        self.equal += result.verdict == "equal"
        self.rounding += result.verdict == "rounding"
        self.branched += result.verdict == "branched"
        self.differing += result.verdict == "differs"
        self.largest = max(self.largest, result.largest)
        self.tokens = max(self.tokens, len(computed.tokens or ()))
        if result.verdict == "differs" and not self.example:
            self.example = f"{where}: {result.what}"


@dataclass
class FolderResult:
    """Comparison of one folder's stored answers with recomputed ones, by kind of part."""

    holding: Holding
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Today's versions."""
    parts: dict[str, PartResult] = field(default_factory=dict)
    """Kind of part (answer, options, draw, p_true...) -> comparison."""

    @property
    def failed(self) -> bool:
        return any(part.failed for part in self.parts.values())

    @property
    def moved(self) -> dict[str, tuple[str, str]]:
        """Return (recorded, today's) version by library, where they differ; "absent" if missing."""
        recorded = self.holding.about.get("libraries") or {}
        names = sorted({*recorded, *self.libraries})
        pairs = {name: (recorded.get(name, "absent"), self.libraries.get(name, "absent")) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    @property
    def why(self) -> str:
        """Return the reason for which a failed folder is refused; call it for failed ones only."""
        kinds = [f"{part.apart} of {part.checked} ({kind})" for kind, part in self.parts.items() if part.failed]
        largest = max(part.largest for part in self.parts.values() if part.failed)
        return f"audit: {', '.join(kinds)} differ from what is computed now, by {largest:.3g} at most"


@dataclass
class AuditReport:
    """Comparisons by folder, folders that were not compared, and parts that no stage asks for."""

    folders: list[FolderResult]
    unchecked: list[tuple[Holding, str]]
    """Folders that were not compared, or not completely, with reasons."""
    unasked: list[tuple[Holding, Counter[str]]] = field(default_factory=list)
    """Compared folders with counts of parts that no examined stage asks for; stages with more than ROWS samples were not examined
    completely."""

    @property
    def checked(self) -> int:
        return sum(part.checked for folder in self.folders for part in folder.parts.values())

    @property
    def failed(self) -> list[FolderResult]:
        return [folder for folder in self.folders if folder.failed]


def audit(stages: Sequence[Stage], root: Path, max_parts: int, seed: int) -> AuditReport:
    """Compare up to `max_parts` random stored parts with recomputed ones; return a report.

    Args:
        max_parts: maximum number of answer parts to compute again, over all folders and kinds.
    """
    held = {holding.folder.name: holding for holding in list_holdings(root)}
    usable = {name: holding for name, holding in held.items() if not holding.refusal}
    lots: Lots[tuple[str, str], _Drawn] = Lots(seed, max_parts)
    reasons: dict[str, str] = {}
    askers = {}
    requested: dict[str, set[tuple[str, bytes]]] = {name: set() for name in usable}
    for number, stage in enumerate(stages):
        try:
            asker, mine, cells = _looked_up(stage, usable, seed)
        except FAULTS as error:
            reasons |= {name: str(error) or type(error).__name__ for name, h in usable.items() if stage.key in h.stages}
            continue
        askers[number] = asker
        if isinstance(asker.model, Remote):
            reasons |= dict.fromkeys(mine, "a server computes them")
            continue
        for name in mine:
            for cell, part, key in _stored(asker, _shelf(name, mine), cells):
                kind = part.partition(" ")[0]
                requested[name].add((kind, key))
                lots.add((name, kind), key, _Drawn(number, cell, part))
    results = {name: FolderResult(holding) for name, holding in usable.items()}
    drawn = lots.draw(max_parts)
    for number in list(askers):
        asker = askers.pop(number)
        for name in sorted({folder for folder, _ in drawn}):
            own = [lot for (folder, _), some in drawn.items() if folder == name for lot in some if lot.stage == number]
            if own:
                try:
                    _computed(asker, _shelf(name, _folders_of_model(asker, usable)), own, results[name])
                except FAULTS as error:
                    reasons[name] = str(error) or type(error).__name__
        del asker  # frees its weights before the next are loaded
        gc.collect()
    return _report(results, held, reasons, requested)


def _report(
    results: Mapping[str, FolderResult],
    held: Mapping[str, Holding],
    reasons: Mapping[str, str],
    asked: Mapping[str, Iterable[tuple[str, bytes]]],
) -> AuditReport:
    checked = [result for result in results.values() if result.parts]
    others = [(r.holding, r.holding.parts - Counter(kind for kind, _ in asked[r.holding.folder.name])) for r in checked]
    names = {result.holding.folder.name for result in checked}
    left = [(holding, _reason(holding, reasons.get(name, ""))) for name, holding in held.items() if name not in names or name in reasons]
    return AuditReport(checked, left, [(holding, counts) for holding, counts in others if counts])


def _reason(holding: Holding, reason: str) -> str:
    return f"refused: {holding.refusal}" if holding.refusal else reason or "no stage that was examined asks for them"


class _Drawn(NamedTuple):
    stage: int
    cell: SampleVariant
    part: str


class _Shelf(StoredAnswers):
    """Stored answers of a model, with precedence to one folder; new parts stay in memory."""

    def __init__(self, folder: Path, others: Sequence[Path]) -> None:
        self.recomputed: dict[bytes, Part] = {}
        super().__init__(folder, {place.name: open_segments(place, touch=False) for place in (folder, *others)})

    def put(self, keys: Sequence[bytes], names: Sequence[str], parts: Sequence[Part]) -> None:
        """Keep parts of answers by key in memory, in the store's form; `names`: each part's name."""
        for row in to_rows(keys, names, parts).to_pylist():
            key, _ = row.pop("key"), row.pop("part")
            self.recomputed[key] = Part(**row)


def _shelf(name: str, usable: Mapping[str, Holding]) -> _Shelf:
    return _Shelf(usable[name].folder, [holding.folder for other, holding in usable.items() if other != name])


def _folders_of_model(asker: Asker, usable: Mapping[str, Holding]) -> dict[str, Holding]:
    """Return the holdings, by folder name, with answers of an asker's model and engine."""
    wanted = (asker.model.digest, asker.engine.identity)
    return {name: holding for name, holding in usable.items() if (holding.about.get("model"), holding.engine) == wanted}


def _looked_up(stage: Stage, usable: Mapping[str, Holding], seed: int) -> tuple[Asker, dict[str, Holding], list[SampleVariant]]:
    """Sample a stage's rows; return (asker of them, {name: answer folder}, their inputs).

    The folders hold answers of the stage's model and engine. There are none for a model that looks up recorded answers. The inputs
    are the sample variants of at most `ROWS` rows, [] without a folder or for a model behind a server.
    """
    job = open_inference(stage)
    rows = [(i, row) for i, dataset in enumerate(job.datasets) for row in range(len(dataset))]
    some = set(random.Random(f"{seed} {stage.key}").sample(rows, min(ROWS, len(rows))))  # noqa: S311 - a sample, no secret
    datasets = [dataset.only([row for row in range(len(dataset)) if (i, row) in some]) for i, dataset in enumerate(job.datasets)]
    asker = Asker(job.model, find_engine(job.module), datasets, job.variants, job.needs, stage)
    mine = {} if hasattr(job.model, "lookup") else _folders_of_model(asker, usable)
    return asker, mine, asker.survey()[0] if mine and not isinstance(job.model, Remote) else []


def _stored(asker: Asker, shelf: _Shelf, cells: Sequence[SampleVariant]) -> Iterator[tuple[SampleVariant, str, bytes]]:
    """Yield (sample variant, part's name, key) of answer parts in the shelf's own folder."""
    for start in range(0, len(cells), _CELLS):
        needed = [(cell, part) for cell in cells[start : start + _CELLS] for part in asker.parts(cell.options)]
        keys = stored_keys(asker, shelf, [(cell.place, part) for cell, part in needed])
        for (cell, part), key, origin in zip(needed, keys, shelf.origins(keys), strict=True):
            if key != UNKNOWN and origin == shelf.folder.name:
                yield cell, part, key


def _computed(asker: Asker, shelf: _Shelf, lots: Sequence[_Drawn], result: FolderResult) -> None:
    check_device(asker.stage.settings.device)
    tasks = [batch_plan.AnswerTask(lot.cell, (lot.part,)) for lot in lots]
    keys = stored_keys(asker, shelf, [(lot.cell.place, lot.part) for lot in lots])
    before = shelf.parts(keys)
    batches = batch_plan.make_batches(tasks, choose_batch_sizes(asker, shelf, share_with_processes=False))
    answer_all(asker, shelf, batch_plan.Work(batches, again=True))
    result.libraries = asker.engine.libraries
    dtype = str(getattr(asker.model, "dtype", None) or asker.stage.params["model"].get("dtype") or "float32")
    for lot, key, stored in zip(lots, keys, before, strict=True):
        kind = lot.part.partition(" ")[0]
        row = result.parts.setdefault(kind, PartResult(result.holding.parts[kind], dtype))
        where = (asker.datasets[lot.cell.place.dataset].name, asker.name(lot.cell.place), asker.variants[lot.cell.place.variant].name)
        row.take(compare_parts(lot.part, stored, shelf.recomputed[key], dtype), shelf.recomputed[key], f"{' '.join(where)} {lot.part}")


Stratum = TypeVar("Stratum", bound=Hashable)
Item = TypeVar("Item")


class Lots(Generic[Stratum, Item]):
    """Random sample of fixed size from each stratum, drawn while items are added."""

    def __init__(self, seed: int, per_stratum: int) -> None:
        self._seed, self._per_stratum = f"{seed} ".encode(), per_stratum
        self._heaps: dict[Stratum, list[tuple[int, Item]]] = {}
        self._ranks: dict[Stratum, set[int]] = {}

    def add(self, stratum: Stratum, key: bytes, item: Item) -> None:
        """Add an item, once per key; a stratum keeps those of lowest key hash, up to a maximum."""
        rank = -int.from_bytes(hashlib.sha256(self._seed + key).digest())
        heap, ranks = self._heaps.setdefault(stratum, []), self._ranks.setdefault(stratum, set())
        if rank in ranks or (len(heap) == self._per_stratum and rank < heap[0][0]):
            return
        ranks.add(rank)
        heapq.heappush(heap, (rank, item))  # ranks differ, so items are never compared
        if len(heap) > self._per_stratum:
            ranks.discard(heapq.heappop(heap)[0])

    def draw(self, total: int) -> dict[Stratum, list[Item]]:
        """Return up to `total` sampled items by stratum, spread as evenly as possible."""
        shares = split_evenly({stratum: len(heap) for stratum, heap in self._heaps.items()}, total)
        return {
            stratum: [item for _, item in sorted(self._heaps[stratum], key=lambda lot: -lot[0])[:n]] for stratum, n in shares.items() if n
        }


def split_evenly(stratum_sizes: Mapping[Stratum, int], total: int) -> dict[Stratum, int]:
    """Return the number of items to take by stratum: all of small ones, else equally many.

    >>> split_evenly({"a": 3, "b": 100, "c": 100}, 23)
    {'a': 3, 'b': 10, 'c': 10}
    """
    shares: dict[Stratum, int] = {}
    for number, (stratum, size) in enumerate(sorted(stratum_sizes.items(), key=lambda item: item[1])):
        shares[stratum] = min(size, (total - sum(shares.values())) // (len(stratum_sizes) - number))
    return shares


Verdict = Literal["equal", "rounding", "branched", "differs"]
ROUNDING = {"float64": 2e-6, "float32": 2e-4, "float16": 2e-2, "bfloat16": 0.2}
"""Tolerance for log-probabilities, entropies and logits between batches and machines, relative above 1. At float64 it is the last stored
digit; otherwise a multiple of the usual difference."""
_LAST_DECIMAL = 2e-9
_NOISE = 0.1
"""Usual difference, as a share of ROUNDING."""
CHANCE = 1e-3
"""Maximum probability that a stratum fails although nothing changed."""


@dataclass(frozen=True)
class PartDifference:
    """Difference between a stored part and the same part computed now."""

    verdict: Verdict
    """`equal`: the same bytes. `rounding`: numbers within tolerance, or tied tokens. `branched`: a sampled answer with another token at
    some place, and numbers within tolerance before. `differs`: anything else."""
    largest: float = 0.0
    what: str = ""
    """Differing part: `text`, or the name of the numbers."""


def compare_parts(part: str, stored: Part, computed: Part, dtype: str) -> PartDifference:
    """Return how a stored part of an answer differs from the recomputed one, by tolerance."""
    if stored == computed:
        return PartDifference("equal")
    branch = _branch(stored.tokens, computed.tokens)
    if branch is None:
        largest, off = _largest_difference(stored, computed, dtype)
        if part == "top_tokens" and _is_mostly_equal(stored.text, computed.text):
            return PartDifference("rounding", largest, "text")
        if stored.text != computed.text or (stored.tokens is None) != (computed.tokens is None):
            return PartDifference("differs", largest, "text")
        return PartDifference("differs" if off else "rounding", largest, off)
    one, other = _until(stored, branch), _until(computed, branch)
    largest, off = _largest_difference(one, other, dtype)
    if off:
        return PartDifference("differs", largest, off)
    if draw_of(part):
        return PartDifference("branched", largest, "text")
    tie = _is_tie(stored, computed, branch, dtype)
    return PartDifference("rounding" if tie else "differs", largest, "text")


def too_many_branches(branched: int, checked: int, tokens: int, dtype: str) -> bool:
    """Return whether more of `checked` answers branched than rounding of `tokens` explains.

    If distributions differ by e, a random number falls between the bounds of two tokens with probability about 4 e per token.
    """
    from scipy.special import bdtrc

    chance = 0.0 if dtype == "float64" else min(1.0, 4 * _NOISE * ROUNDING.get(dtype, ROUNDING["bfloat16"]) * tokens)
    return bool(bdtrc(branched - 1, checked, chance) < CHANCE)


def _branch(one: Sequence[int] | None, other: Sequence[int] | None) -> int | None:
    """Return the first index at which token lists differ; None if equal or either is None."""
    if one is None or other is None or list(one) == list(other):
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _is_mostly_equal(stored: str | None, computed: str | None) -> bool:
    """Return whether two answers' top-token lists, as JSON, mostly agree at every position.

    At each position the first tokens are equal and at least half of the stored ones are in both: about equally likely tokens change
    places by rounding. False if a list is missing or the numbers of positions differ.
    """
    one, other = read_top_tokens(stored), read_top_tokens(computed)
    if not one or not other or len(one) != len(other):
        return False
    return all(a[0] == b[0] and 2 * len({*a} & {*b}) >= len({*a}) for a, b in zip(one, other, strict=True))


def _until(part: Part, place: int) -> Part:
    return replace(part, logprobs=part.logprobs and part.logprobs[:place], entropies=part.entropies and part.entropies[:place])


def _is_tie(stored: Part, computed: Part, index: int, dtype: str) -> bool:
    """Return whether the tokens at this index are about equally likely in both answers."""
    if any(not part.logprobs or len(part.logprobs) <= index for part in (stored, computed)):
        return False
    (one,), (other,) = ((part.logprobs or [])[index : index + 1] for part in (stored, computed))
    return abs(one - other) <= 2 * _allowed(one, dtype)


def distance(a: float, b: float) -> float:
    """Return |a - b|; infinite if just one is NaN, 0 if both are."""
    gap = abs(a - b)
    return gap if gap == gap else (0.0 if a == b or (a != a and b != b) else float("inf"))


def _largest_difference(stored: Part, computed: Part, dtype: str) -> tuple[float, str]:
    """Return (largest difference, inf if incomparable; first field beyond tolerance or "")."""
    largest, off = 0.0, ""
    for name in ("logprobs", "entropies", "numbers"):
        one, other = getattr(stored, name), getattr(computed, name)
        if one == other:
            continue
        if one is None or other is None or len(one) != len(other):
            return math.inf, name
        for a, b in zip(one, other, strict=True):
            gap = distance(a, b)
            largest = max(largest, gap)
            off = off or ("" if math.isfinite(gap) and gap <= _allowed(a, dtype) else name)
    return largest, off


def _allowed(value: float, dtype: str) -> float:
    share = ROUNDING.get(dtype, ROUNDING["bfloat16"])
    return share * abs(value) + _LAST_DECIMAL if dtype == "float64" else share * max(1.0, abs(value))
