"""NLI models of transformers: sequence classifiers with the classes entailment, neutral and contradiction, or entailment and its absence.

Published models order these classes differently, so the order comes from the model's config or from the spec, and is never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qualm.runners.contracts.nli import Logits, NliContext, NliEngine, NliError, Pair
from qualm.runners.plugins.nli._batches import BatchedModel, find_folder
from qualm.runners.runtime.precision import stored_value

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import Artifact

_CLASSES = "entailment, neutral and contradiction, or entailment and not_entailment"
_WORDS = (("entail", "neutral", "contradict"), ("entail", "not_entail"))
"""Prefixes of the class names, in our order; "non-entailment" counts as "not_entailment"."""
EXTRA = "models"


def hf(
    context: NliContext,
    *,
    artifact: Artifact | None = None,
    hub: str | None = None,
    revision: str | None = None,
    labels: list[str] | None = None,
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None,
) -> NliEngine:
    """Return a transformers NLI classifier from a folder; its first batch loads the weights.

    Args:
        artifact: the entry of registry/data/ that holds it.
        hub: or its name on the Hugging Face hub; `qualm fetch SPEC` downloads it.
        revision: branch, tag or commit of the hub repository, `main` unless given. `qualm fetch` pins its commit in registry/fetch.lock.
        labels: the classes in the order of its outputs, [entailment, neutral, contradiction] or [entailment, not_entailment] in any
            order, for a model whose config calls them LABEL_0 and so on. A model of two classes tells no contradictions; where they are
            needed, it is refused.
        dtype: of the weights; null is float32, at which the result of a pair depends on its batch by rounding only (about 1e-6). At
            float64 all is computed in double precision, and results depend on neither batch nor machine.

    Raises:
        NliError: files are missing, or its classes are unknown.
    """
    folder = find_folder("hf", artifact, hub, revision)
    return HfNli(hub or folder.name, folder, class_order(folder, labels), dtype or "float32", context)


def class_order(folder: Path, labels: list[str] | None) -> tuple[int, ...]:
    """Return each class's output index, entailment first; NliError if classes are unknown.

    Neutral and contradiction follow, or not_entailment alone.

    Raises:
        NliError: neither `id2label` nor the spec names exactly these classes, or both do and differ.
    """
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        named = [name for _, name in sorted((int(i), str(name)) for i, name in (raw.get("id2label") or {}).items())]
    except (OSError, ValueError, AttributeError) as error:
        raise NliError(f"nli hf: {folder}/config.json cannot be read: {error}") from error
    own, spec_order = _order(named), _order(labels or [])
    if labels is not None and spec_order is None:
        raise NliError(f"nli hf: labels: expected {_CLASSES}, in any order, got {', '.join(labels) or 'nothing'}")
    if own is not None and spec_order is not None and own != spec_order:
        raise NliError(
            f"nli hf: the spec says that the classes of {folder.name} are {', '.join(labels or ())}; its config says {', '.join(named)}"
        )
    if spec_order is not None and named and len(named) != len(spec_order):
        raise NliError(f"nli hf: {folder.name} has {len(named)} classes ({', '.join(named)}); `labels` names {len(spec_order)}")
    order = own or spec_order
    if order is None:
        raise NliError(
            f"nli hf: {folder.name}: expected the classes {_CLASSES}, its config names {', '.join(named) or 'none'}; "
            "if it is an NLI model, say `labels: [...]` in the order of its outputs, as its authors give it"
        )
    return order


def _order(names: Sequence[str]) -> tuple[int, ...] | None:
    plain = [re.sub("^no[nt]?[-_ ]?(?=entail)", "not_", name.strip().lower()) for name in names]
    for words in _WORDS:
        places_by_class = [[i for i, name in enumerate(plain) if name.startswith(word)] for word in words]
        if len(plain) == len(words) and all(len(places) == 1 for places in places_by_class):
            return tuple(places[0] for places in places_by_class)
    return None


class HfNli(BatchedModel):
    """A transformers classifier that yields entailment logits of text pairs (`NliEngine`)."""

    loader, expected = "AutoModelForSequenceClassification", "an NLI classifier"
    label, unit, gives = "nli", "pair", "logits"

    def __init__(self, name: str, folder: Path, order: tuple[int, ...], dtype: str, context: NliContext) -> None:
        super().__init__("hf", name, folder, order, dtype, context)
        self.order, self.classes = order, len(order)

    def infer(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[int, Logits]]]:
        """Yield batches of (index of the pair, logits), the longest pairs first."""
        for batch in self.in_batches(pairs):
            yield [(i, tuple(map(stored_value, logits.tolist()))) for i, logits in batch]

    def compute(self, batch: Any) -> Any:
        """Return the logits (n, classes) of a tokenized batch, entailment first."""
        return self._model(**batch).logits[:, list(self.order)]
