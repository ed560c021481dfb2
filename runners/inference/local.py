"""Inference on local devices under Lightning's `Trainer.predict`; each batch is stored before the next begins.

Lightning provides devices and processes; loader threads decode, perturb, tokenise and process images while the device computes. If memory
is too small for a batch, it is cut in two, and so are all later ones of its kind.
"""

from __future__ import annotations

import gc
import logging
import os
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qualm.registry.machine import usable_cores
from qualm.runners.contracts.models import ANSWER, Encoded, Part, Request, round_part
from qualm.runners.data.answers import StoredAnswers
from qualm.runners.inference import distributed
from qualm.runners.inference.batch_plan import Batch, Work, make_requests, stored_parts
from qualm.runners.inference.devices import out_of_memory, torch_device
from qualm.runners.inference.keys import computed_keys
from qualm.runners.runtime import status
from qualm.runners.runtime.prefetch import map_ahead
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.stage import StageError

if TYPE_CHECKING:
    from qualm.runners.inference.requests import Asker

_LOADERS = 4
"""Default number of threads that prepare batches; each holds a batch of images in memory."""


def load_module(asker: Asker) -> Any:
    """Return an asker's model as a torch module, loading its weights on the first call."""
    if asker.module is None:
        asker.module = asker.model.load()
    return asker.module


def answer_all(asker: Asker, store: StoredAnswers, work: Work, share_with_processes: bool = False) -> None:
    """Compute the answers of all batches and store them.

    Args:
        share_with_processes: share it with the stage's other processes, as the settings say.

    Raises:
        KeyboardInterrupt: the user stopped it; answers so far are stored.
        StageError: a single prompt needs more memory than there is.
    """
    how = distributed.parallelism(asker.stage.settings, share_with_processes)
    # Others that were started with us wait to be told, also that there is nothing to do; those we would start need not be.
    if work.batches or (how not in (distributed.ALONE, distributed.DEVICE_MAP) and "WORLD_SIZE" in os.environ):
        _run(asker, store, work, how)


def answer_share(asker: Asker, store: StoredAnswers) -> None:
    """Compute this process's share of the batches that the first process has planned."""
    _run(asker, store, Work(()), distributed.parallelism(asker.stage.settings, share_with_processes=True))


def _run(asker: Asker, store: StoredAnswers, work: Work, strategy: str) -> None:
    import lightning

    settings = asker.stage.settings
    torch_device(settings.device, getattr(asker.model, "dtype", None))  # refuses a dtype that the device does not have
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings(), progress(settings, "answering", sum(len(b.places) for b in work.batches)) as advance:
        warnings.filterwarnings("ignore", module="lightning")
        trainer = asker.trainer or lightning.Trainer(
            **distributed.trainer_arguments(settings, strategy),
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        # Not kept where processes take part: they end with the predictions, and another round needs a new group.
        asker.trainer = trainer if strategy == distributed.ALONE else None
        try:
            trainer.predict(_answering()(asker, store, work, strategy, advance), return_predictions=False)
        except SystemExit as error:  # what Lightning makes of Ctrl-C
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise


def _answering() -> Any:
    import lightning
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    class Pieces(IterableDataset[Any]):
        def __init__(self, loader: Loader, batches: Sequence[Batch], workers: int) -> None:
            self.loader, self.batches, self.workers = loader, batches, workers

        def __iter__(self) -> Iterator[list[tuple[Batch, Encoded]]]:
            # One batch ahead: its images take memory, and more would only wait.
            return map_ahead(self.loader, self.batches, self.workers, depth=1)

    class Answering(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self, asker: Asker, store: StoredAnswers, work: Work, how: str, advance: Any) -> None:
            super().__init__()
            self.asker, self.store, self.work, self.how, self.advance = asker, store, work, how, advance

        def setup(self, stage: str) -> None:
            # From the first process: batches planned apart could differ, and then each would wait in another collective call.
            plan = self.trainer.strategy.broadcast(replace(self.work) if self.trainer.is_global_zero else None)
            self.work.batches, self.work.limits, self.work.notes = plan.batches, plan.limits, plan.notes
            spread = self.how in distributed.SPREAD
            # Replicas take every n-th batch, so that long and short ones are shared out; a spread model needs all processes in each.
            self.mine = self.work.batches if spread else self.work.batches[self.trainer.global_rank :: self.trainer.world_size]
            self.writes = not spread or self.trainer.is_global_zero
            if spread and self.mine:
                network = distributed.load_spread(self.asker.model, self.how, self.trainer.strategy.root_device, self.trainer.local_rank)
                self.placed = [network]  # in a list, which hides it from Lightning
            elif self.mine:
                self.network = load_module(self.asker)
            pinned = self.trainer.strategy.root_device.type == "cuda"
            self.loader = Loader(self.asker, self.store, self.work, pinned, skip=not (spread or self.work.again))

        def predict_dataloader(self) -> Any:
            threads = self.asker.stage.settings.workers or min(_LOADERS, usable_cores())
            # Threads, not worker processes: encoded images would have to be copied between processes.
            return DataLoader(Pieces(self.loader, self.mine, threads), batch_size=None)

        def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
            return batch  # the model moves its tensors; the requests stay

        def predict_step(self, pieces: list[tuple[Batch, Encoded | None]], batch_idx: int) -> None:
            waiting = deque(pieces)
            while waiting:
                batch, encoded = waiting.popleft()
                limit = self.work.limit(batch)
                if len(batch.places) > limit:
                    # `extendleft` reverses, so the pieces are reversed first.
                    waiting.extendleft((piece, None) for piece in reversed(batch.cut(limit)))
                    continue
                encoded = encoded or self.loader.encoded(batch)
                answers = self.answers(batch, encoded)
                if answers is None:
                    # The exception's frames still hold the tensors that did not fit; only when these are gone can the cache be emptied.
                    gc.collect()
                    if torch.accelerator.is_available():
                        torch.accelerator.empty_cache()
                    waiting.appendleft((batch, None))
                    continue
                self.keep(batch, encoded.requests, answers)
                self.advance(len(batch.places))

        def answers(self, batch: Batch, encoded: Encoded) -> list[dict[str, Part]] | None:
            """Return {name: answer part} per question; None, with the batch halved, if out of memory.

            Raises:
                StageError: a single prompt is too large, or other processes wait within this batch.
            """
            try:
                return list(self.asker.model.answer(encoded, self.asker.decoding))
            except Exception as error:
                if not out_of_memory(error):
                    names = ", ".join(map(self.asker.name, batch.places))
                    error.add_note(f"in the batch of samples {names}; all batches before it are stored")
                    raise
                if len(batch.places) == 1:
                    raise StageError(_too_big(self.asker, batch, error)) from error
                self.work.halve(batch)
                # The other processes wait within this batch and cannot be called back.
                if self.how in (distributed.TENSOR_PARALLEL, distributed.FSDP):
                    raise StageError(
                        f"memory was too small for {len(batch.places)} prompts at once; run it again: it goes on with half"
                    ) from error
                return None

        def keep(self, batch: Batch, requests: Sequence[Request], answers: list[dict[str, Part]]) -> None:
            if self.writes:
                rows: dict[bytes, tuple[str, Part]] = {}  # answers that are the same have the same inside
                for place, request, answer in zip(batch.places, requests, answers, strict=True):
                    own = computed_keys(self.asker, request, place, answer)
                    for part in batch.parts:
                        rows.setdefault(own[part], (part, round_part(part, answer[part])))
                self.store.put(list(rows), [part for part, _ in rows.values()], [value for _, value in rows.values()])
                if text := (answers[-1].get(ANSWER) or Part()).text:
                    status.tell_answer(requests[-1].question, text)

        def on_predict_end(self) -> None:
            # The first process makes tables next, from what the others have stored.
            self.trainer.strategy.barrier("answered")

    return Answering


class Loader:
    """Function from a batch to its encoded pieces, each of a size that fits into memory."""

    def __init__(self, asker: Asker, store: StoredAnswers, work: Work, pinned: bool, skip: bool) -> None:
        """Store the asker, its store and the work; nothing is encoded yet.

        Args:
            store: holds the greedy answers that signals are about.
            pinned: put tensors where a GPU can fetch them while it computes.
            skip: leave out stored pieces of a batch that was cut before a kill.
        """
        self.asker, self.store, self.work, self.pinned, self.skip = asker, store, work, pinned, skip

    def __call__(self, batch: Batch) -> list[tuple[Batch, Encoded]]:
        pieces = batch.cut(self.work.limit(batch))
        if self.skip and len(pieces) > 1:
            pieces = [piece for piece in pieces if not stored_parts(self.asker, piece, self.store).all()]
        return [(piece, self.encoded(piece)) for piece in pieces]

    def encoded(self, batch: Batch) -> Encoded:
        batch_requests = make_requests(self.asker, self.store, batch.places, batch.parts)
        encoded: Encoded = replace(self.asker.model.encode(batch_requests), requests=tuple(batch_requests))
        if not self.pinned:
            return encoded
        return replace(encoded, tensors={n: t.pin_memory() if hasattr(t, "pin_memory") else t for n, t in encoded.tensors.items()})


def _too_big(asker: Asker, batch: Batch, error: BaseException) -> str:
    (place,) = batch.places
    dataset, variant = asker.datasets[place.dataset].name, asker.variants[place.variant].name
    return (
        f"{dataset}: sample '{asker.name(place)}', variant {variant}: needs more memory than there is, even by itself ({error}); "
        "take a smaller dtype or model, fewer draws, or several devices (strategy `device_map` or `tensor_parallel`); "
        "all answers before it are kept"
    )
