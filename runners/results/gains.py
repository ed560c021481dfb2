"""Gains of models: better than the baseline model and than every blind baseline, each by its corrected test.

A difference to the baseline alone may come from the questions: a model that is not better than a classifier of questions, and than
itself with another image, has not been shown to use the image.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qualm.registry import BLIND, REFUSERS, baseline_model
from qualm.runners.scoring.families import verdict

Test = Mapping[str, Any]


@dataclass(frozen=True)
class BlindComparison:
    """Tests of one model on one metric against the baseline and every blind baseline."""

    model: str
    over_baseline: str
    """`better`, `worse`... against the baseline model; "" for the baseline itself and without a test."""
    hardest: Test | None
    """Test against a blind baseline that favours the model least, the model second; None without tests."""
    beyond: bool
    rows: Sequence[str] = ()
    """Blind baselines for this model: refusers, and itself with another image or none."""

    @property
    def ran_without_image(self) -> bool:
        """Return true if the model itself was run with another image or none."""
        return any(baseline_model(row) == self.model and not _is_refuser(row) for row in self.rows)

    @property
    def is_gain(self) -> bool:
        return self.over_baseline == "better" and self.beyond


def compare_with_blind(tests: Iterable[Test], models: Sequence[str], baseline: str) -> list[BlindComparison]:
    """Return image-seeing models' tests against the baseline (or "") and blind baselines."""
    test_of = {(t["a"], t["b"]): t for t in tests}
    test_of |= {(b, a): turn_around(t) for (a, b), t in list(test_of.items()) if (b, a) not in test_of}
    blind = [m for m in models if baseline_model(m)]
    own = {model: [b for b in blind if _is_refuser(b) or baseline_model(b) == model] for model in models if not baseline_model(model)}
    return [_beyond(test_of, model, of, baseline) for model, of in own.items()]


def _is_refuser(row: str) -> bool:
    return row.endswith(tuple(f"+{BLIND[way]}" for way in REFUSERS))


def _beyond(test_of: Mapping[tuple[str, str], Test], model: str, blind: Sequence[str], baseline: str) -> BlindComparison:
    held = [test_of[b, model] for b in blind if (b, model) in test_of]
    over = test_of.get((baseline, model))
    says = "" if over is None else _says(over)
    hardest = min(held, key=lambda test: (_is_clear(test), _advantage(test)), default=None)
    return BlindComparison(model, says, hardest, bool(held) and len(held) == len(blind) and all(map(_is_clear, held)), blind)


def _says(test: Test) -> str:
    return str(verdict(test["p_adjusted"], test["difference"], test["higher_is_better"]) or "")


def _is_clear(test: Test) -> bool:
    return _says(test) == "better"


def _advantage(test: Test) -> float:
    """Return how much better b is than a, in the metric's good direction; 0 if undefined."""
    difference = test["difference"]
    if difference is None or difference != difference:
        return 0.0
    return -float(difference) if test["higher_is_better"] is False else float(difference)


def turn_around(test: Test) -> dict[str, Any]:
    """Return a test of b against a as one of a against b."""
    opposite = {key: None if test[key] is None else -test[key] for key in ("difference", "low", "high")}
    ends = {"low": opposite["high"], "high": opposite["low"], "difference": opposite["difference"]}
    values = {"value_a": test.get("value_b"), "value_b": test.get("value_a")}
    # That b is not worse than a says nothing of a against b.
    return {**test, **ends, **values, "a": test["b"], "b": test["a"], "p_not_worse": None}
