"""NLI with a cache: two rules come before any model, and each distinct pair is computed once."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qualm.registry.plugins.registry import load_chosen
from qualm.runners.contracts.nli import Floats, Logits, NliContext, NliEngine, NliError, Pair
from qualm.runners.data.inferences import Inferences
from qualm.runners.runtime.progress import progress

CACHE = Path(".qualm") / "nli"

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2

SURE = 50.0
"""A logit so far above another that its probability is 1 in float64, while every ratio stays defined."""

FOLLOWS, UNRELATED, CONTRADICTS = (SURE, 0.0, -SURE), (0.0, SURE, 0.0), (-SURE, 0.0, SURE)
"""Logits of pairs that a rule decides. Of two classes the first is as here, and the second its negative; a cosine is their sign."""


class CachedNli:
    """An NLI model or encoder whose logits are cached; equal and empty texts need no model."""

    def __init__(self, engine: NliEngine, context: NliContext, cache: Path = CACHE) -> None:
        self.engine, self.settings, self.counters = engine, context.settings, context.counters
        self.classes = engine.classes
        self._cache = Inferences(cache, engine.identity, engine.classes)

    def logits(self, pairs: Sequence[Pair]) -> Floats:
        """Return logits (n, classes) of the pairs, entailment first; of an encoder cosines (n, 1).

        Raises:
            NliError: the engine failed; the inferences so far are stored.
        """
        numbers: dict[Pair, int] = {}
        # `len(numbers)` is evaluated first, so a new pair gets the next number and an old one keeps its own.
        place = np.fromiter((numbers.setdefault(pair, len(numbers)) for pair in pairs), np.int64, len(pairs))
        distinct = list(numbers)
        logits = np.empty((len(distinct), self.classes))
        ruled = [_rule_logits(*pair) for pair in distinct]
        for i, rule in enumerate(ruled):
            if rule is not None:
                logits[i] = {3: rule, 2: (rule[0], -rule[0]), 1: (float(np.sign(rule[0])),)}[self.classes]
        open_pairs = [i for i, rule in enumerate(ruled) if rule is None]
        if open_pairs:
            logits[open_pairs] = self._logits([distinct[i] for i in open_pairs])
        self.counters["nli pairs"] += len(pairs)
        self.counters["nli pairs same as another"] += len(pairs) - len(distinct)
        self.counters["nli pairs decided by rule"] += len(distinct) - len(open_pairs)
        return logits[place]

    def _logits(self, pairs: list[Pair]) -> Floats:
        if not self.engine.identity:
            logits = np.empty((len(pairs), self.classes))
            for done in self.engine.infer(pairs):
                logits[[i for i, _ in done]] = [logits for _, logits in done]
            return logits
        keys = [pair_key(*pair) for pair in pairs]
        missing = [i for i, key in enumerate(keys) if key not in self._cache]
        self.counters["nli pairs stored"] += len(pairs) - len(missing)
        if missing:
            with progress(self.settings, f"asking {self.engine.name}", len(missing)) as advance:
                for done in self.engine.infer([pairs[i] for i in missing]):
                    self._keep([keys[missing[i]] for i, _ in done], [logits for _, logits in done])
                    self.counters["nli pairs computed"] += len(done)
                    advance(len(done))
        return self._cache.take(keys)

    def _keep(self, keys: list[bytes], logits: list[Logits]) -> None:
        try:
            self._cache.put(keys, logits)
        except OSError as error:
            raise NliError(
                f"{self.engine.name}: {len(keys)} inferences cannot be kept in {self._cache.folder} ({error}); all before them are. "
                "Make room and run again"
            ) from error


def open_nli(chosen: Any, context: NliContext, cache: Path = CACHE) -> CachedNli:
    """Create the NLI model or encoder that a `Chosen` parameter names, with its cache."""
    return CachedNli(load_chosen("nli", chosen)(context), context, cache)


def probabilities(logits: Floats) -> Floats:
    """Return the softmax of logits over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def pair_key(premise: str, hypothesis: str) -> bytes:
    """Return the cache key of a (premise, hypothesis) pair, 16 bytes of a SHA-256."""
    first, second = premise.encode("utf-8", "surrogatepass"), hypothesis.encode("utf-8", "surrogatepass")
    return hashlib.sha256(b"%d %d " % (len(first), len(second)) + first + second).digest()[:16]


def _rule_logits(premise: str, hypothesis: str) -> Logits | None:
    """Return entailment logits for equal texts, contradiction if one is empty, else None."""
    if premise.strip() == hypothesis.strip():
        return FOLLOWS
    return None if premise.strip() and hypothesis.strip() else CONTRADICTS
