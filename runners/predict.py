"""Batches through a model under Lightning's `Trainer.predict`, each stored before the next begins.

Lightning brings the device; the loader threads decode, perturb, tokenise and process pictures while the device works
on the batch before.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from runners.ahead import ahead
from runners.models import Encoded
from runners.progress import progress
from runners.store import Store

if TYPE_CHECKING:
    from runners.asking import Asker, Cell

_LOADERS = 4
"""Threads that prepare batches, where the settings leave the number open: each holds a batch of pictures in memory."""


def answer_all(asker: Asker, store: Store, batches: list[list[Cell]]) -> None:
    """Answer every batch and store it.

    Raises:
        KeyboardInterrupt: the user asked to stop; what was answered is stored.
    """
    import lightning
    from torch.utils.data import DataLoader, IterableDataset

    settings = asker.stage.settings

    def prepare(cells: list[Cell]) -> tuple[list[Cell], Encoded]:
        return cells, asker.model.encode([asker.request(c, store) for c in cells])

    class Batches(IterableDataset[Any]):
        def __iter__(self) -> Iterator[tuple[list[Cell], Encoded]]:
            return ahead(prepare, batches, settings.workers or min(_LOADERS, len(os.sched_getaffinity(0))), depth=1)

    class Answering(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = asker.model.load()

        def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
            return batch  # the model moves its tensors; the requests stay

        def predict_step(self, batch: tuple[list[Cell], Encoded], batch_idx: int) -> None:
            cells, encoded = batch
            try:
                answers = asker.model.answer(encoded, asker.decoding)
            except Exception as error:
                names = [asker.datasets[c.dataset].samples[c.row]["sample_id"] for c in cells]
                error.add_note(f"in the batch of samples {', '.join(names)}; all batches before it are stored")
                raise
            made = [(key, answer[part]) for c, answer in zip(cells, answers, strict=True) for part, key in c.keys.items()]
            store.put([key for key, _ in made], [part for _, part in made])
            asker.stage.count(computed=len(made))
            advance(len(cells))

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings(), progress(settings, "answering", sum(map(len, batches))) as advance:
        warnings.filterwarnings("ignore", module="lightning")
        trainer = lightning.Trainer(
            accelerator=settings.device,
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        try:
            trainer.predict(Answering(), DataLoader(Batches(), batch_size=None), return_predictions=False)
        except SystemExit as error:  # what Lightning makes of Ctrl-C
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise
