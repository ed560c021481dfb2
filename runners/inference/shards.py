"""Work of a cluster worker: answer the driver's batches into a temporary store, which is sent back as bytes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from qualm.runners.contracts.models import Remote
from qualm.runners.data.answers import Store
from qualm.runners.inference.batch_plan import AnswerTask, Batch, Work
from qualm.runners.inference.local import answer_all
from qualm.runners.inference.remote import ask_all, server_record
from qualm.runners.inference.requests import Asker, SampleVariant
from qualm.runners.runtime.code_digest import find_engine
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import make_stage


@dataclass(frozen=True)
class ShardAnswers:
    """Answers to one batch, as store segments, with counters."""

    segments: list[bytes]
    """See `qualm.runners.data.segments`."""
    counters: dict[str, int]
    served: bytes = b""
    """Lines for the stage's record about the server."""


class Shards:
    """A stage that was opened on a cluster worker, to answer its batches (shards)."""

    def __init__(self, opener: str, key: str, raw: Mapping[str, Any], settings: Settings) -> None:
        """Open a stage's model and datasets by the function `opener`, MODULE:NAME.

        Args:
            opener: `MODULE:FUNCTION` that opens the model and datasets of a stage.
        """
        self.stage = make_stage(key, raw, settings)
        module, _, name = opener.partition(":")
        question = getattr(importlib.import_module(module), name)(self.stage)
        self.asker = Asker(question.model, find_engine(question.module), question.datasets, question.variants, question.needs, self.stage)

    @property
    def identity(self) -> dict[str, Any]:
        """Return digests and versions that shape answers; they must equal the driver's."""
        own = self.asker.engine
        return {
            "model": self.asker.model.digest,
            "engine": own.identity,
            "versions": own.changed_versions(),
            "libraries": dict(own.libraries),
        }

    def answer(self, batch: Batch, known: pa.Table | None, proven: bool) -> ShardAnswers:
        """Compute the answers of one batch in a temporary store; return new segments and counts.

        Args:
            known: stored answers at the same places, as rows of the store.
        """
        self.stage.counters.clear()
        with TemporaryDirectory(prefix="shard-", dir=Path.cwd().parents[1]) as folder:
            own = self.asker.engine
            self.stage.settings = replace(self.stage.settings, store=folder)
            store = Store(
                Path(folder), self.asker.model.digest, own.identity, libraries=own.libraries, versions=own.changed_versions(), durable=False
            )
            if known is not None:
                store.add(known)
            before = _segments(store)
            if isinstance(self.asker.model, Remote):
                ask_all(self.asker, store, [AnswerTask(SampleVariant(place, 0, "", 0, ""), batch.parts) for place in batch.places], proven)
            else:
                answer_all(self.asker, store, Work([batch]))
            # Without what the driver sent along: it has that already.
            new = [path.read_bytes() for path in _segments(store) if path not in before]
        return ShardAnswers(new, dict(self.stage.counters), _read_and_remove(server_record(self.stage)))


def _segments(store: Store) -> Sequence[Path]:
    return sorted(store.folder.glob("*.segment"))


def _read_and_remove(path: Path) -> bytes:
    """Return a file's content and remove it; b"" if there is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return b""
    path.unlink()
    return content
