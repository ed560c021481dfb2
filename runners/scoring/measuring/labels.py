"""A metric's label in its parts: `auroc@right_from=1[perplexity]` is the metric, its parameters and an estimator."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import SET_COLUMNS
from qualm.registry.plugins.columns import columns, judge_of
from qualm.registry.plugins.declarations import for_arguments
from qualm.registry.text import visible

PARTS: dict[str, type] = {
    "metric": str,
    "parameters": str,
    "estimator": str,
    "conformal": str,
    "nonconformity": str,
    "calibrator": str,
    "judge": str,
    "higher_is_better": bool,
}
"""The parts, and what each is; null where a label has none."""
OF_THE_JUDGE = frozenset({"correct", "clean_correct", "pred_is_idk", "hedges", "says_uncertain"})
"""Columns that are, of answers in words, what the judge of the dataset says."""

_LABEL = re.compile(r"(?P<name>[^\[@]+)(?:@(?P<sweep>[^\[]*))?(?:\[(?P<where>.*)\])?", re.DOTALL)


@dataclass(frozen=True)
class LabelParts:
    """Parts of a metric label, read from its text alone."""

    plugin: str
    sweep: str = ""
    setting: str = ""
    score: str = ""
    """Name after the setting: a nonconformity score, or an estimator if the metric reads no sets."""
    estimator: str = ""
    calibrator: str = ""
    """A setting of calibrators, a method and perhaps an estimator: `held_out/platt/perplexity`."""


def split_label(text: str, settings: Collection[str], calibrators: Collection[str]) -> LabelParts:
    """Split a metric label into metric, parameters and what stands in brackets.

    A bracket that begins with one of `settings` is a setting, perhaps with a score; one that begins with one of `calibrators` is a
    calibrator; any other is an estimator.

    >>> split_label("ece@bins=5[ours]", ["ours"], []).setting, split_label("auroc[p_true]", ["ours"], []).estimator
    ('ours', 'p_true')
    """
    match = _LABEL.fullmatch(text)
    if match is None:
        return LabelParts(text)
    own, where = LabelParts(match["name"], match["sweep"] or ""), match["where"] or ""
    if not where:
        return own
    if _longest_prefix(where, calibrators):
        return replace(own, calibrator=where)
    if setting := _longest_prefix(where, settings):
        return replace(own, setting=setting, score=where.removeprefix(setting).removeprefix("/"))
    return replace(own, estimator=where)


def plugin_of(label: str) -> str:
    """Return the name of a label's metric plugin, without parameters and brackets.

    >>> plugin_of("ece@bins=5[ours/lac]"), metric_of("ece@bins=5[ours/lac]"), in_brackets("ece@bins=5[ours/lac]"), in_brackets("ece")
    ('ece', 'ece@bins=5', 'ours/lac', '')
    """
    return metric_of(label).partition("@")[0]


def metric_of(label: str) -> str:
    """Return the label without brackets: the metric with its parameters, as in the spec."""
    return label.partition("[")[0]


def in_brackets(label: str) -> str:
    """Return the text in brackets: an estimator, a setting or a calibrator; empty if none."""
    return label.partition("[")[2].removesuffix("]")


class Labels:
    """Parser of one stage's metric labels, which knows its conformal settings and calibrators."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        """Take the stage's parameters: its metrics, conformal settings and calibrators."""
        self._metrics = {m["label"]: m for m in params["metrics"]}
        self._conformal = [s["label"] for s in params.get("conformal", ())]
        self._calibrators = [s["label"] for s in params.get("calibrators", ())]
        self._plugin = cache(partial(registry.get, "metrics"))

    def parts(self, label: str, judge: str | None = None) -> dict[str, Any]:
        """Return the parts of a label by name (PARTS); `parameters` is None for an unknown metric.

        `judge` is the one whose ratings are the correctness of the dataset's answers.
        """
        own = split_label(label, self._conformal, self._calibrators)
        parts: dict[str, Any] = dict.fromkeys(PARTS) | {"metric": own.plugin, "conformal": own.setting or None}
        of_sets, ref = True, self._metrics.get(own.plugin + f"@{own.sweep}" * bool(own.sweep))
        if ref is not None:
            plugin = self._plugin(ref["plugin"])
            parts["parameters"] = json.dumps(ref["args"], sort_keys=True, ensure_ascii=False)
            parts["higher_is_better"] = for_arguments(plugin, ref["args"]).declares.get("higher_is_better")
            reads = {column for column in columns(plugin, ref["args"]).values() if column is not None}
            of_sets, parts["judge"] = bool(SET_COLUMNS & reads), _judge(reads, judge)
        if own.calibrator:
            setting = _longest_prefix(own.calibrator, self._calibrators)
            method, _, estimator = own.calibrator.removeprefix(f"{setting}/").partition("/")
            return parts | {"calibrator": f"{setting}/{method}", "estimator": estimator or None}
        estimator, parts["nonconformity"] = (own.estimator, own.score or None) if of_sets else (own.estimator or own.score, None)
        return parts | {"estimator": estimator or None}


def add_estimator(label: str, estimator: str) -> str:
    """Return `m[estimator]` for label `m`, and `m[x/estimator]` for `m[x]`."""
    return f"{label[:-1]}/{estimator}]" if label.endswith("]") else f"{label}[{estimator}]"


SHARE = "share@"
"""Settings of the calibration-share study are called `share@fraction=0.1`."""


def main_setting(settings: Sequence[str]) -> str:
    """Return the main conformal setting: `ours`, else the first (studies last); "" if none."""
    plain = [s for s in settings if not s.startswith(SHARE)] or [*settings, ""]
    return "ours" if "ours" in plain else plain[0]


def _judge(reads: Collection[str], scored_by: str | None) -> str | None:
    """Return the judge that a metric with these columns depends on; None if on none."""
    named = [judge for column in sorted(reads) if (judge := judge_of(column)) is not None]
    rests = "" in named or not OF_THE_JUDGE.isdisjoint(reads)
    return next(filter(None, named), scored_by if rests else None)


def _longest_prefix(where: str, names: Collection[str]) -> str:
    """Return the longest of `names` that equals `where` or is a path prefix of it; "" if none."""
    return max((name for name in names if where == name or where.startswith(f"{name}/")), key=len, default="")


_ACRONYMS = {
    *("ece", "mce", "auroc", "auarc", "auprc", "aurc", "uacc", "lac", "aps", "raps", "f1", "idk", "lave", "vqa", "n"),
    *("luq", "inv", "sbj", "amb", "ive", "clip", "jpeg"),
}
_CALLED = {
    "p_true": "P(True)",
    "p_true_sampling": "P(True) over samples",
    "deg_mat": "DegMat",
    "cocoa": "CoCoA",
    "sentence_sar": "sentence-SAR",
    "vl_uncertainty": "VL-Uncertainty",
    "vase": "VASE",
    "sar": "SAR",
    "token_sar": "token-SAR",
    "rauq": "RAUQ",
    "vauq": "VAUQ",
    "umpire": "UMPIRE",
    "eigen_score": "EigenScore",
    "sem_grad": "SemGrad",
}


def display_name(name: str) -> str:
    """Return the display name of a plugin: `set_size` as `set size`, `ece` as `ECE`.

    >>> display_name("clip_mask"), display_name("p_true@prompt=plain"), display_name("deg_mat")
    ('CLIP mask', 'P(True)@prompt=plain', 'DegMat')
    """
    plugin, at, rest = name.partition("@")
    phrase = _CALLED.get(plugin) or " ".join(w.upper() if w in _ACRONYMS else w for w in plugin.split("_"))
    return visible(phrase + at + rest.replace("_", " "), 120)


def heading_name(plugin: str) -> str:
    """Return a metric plugin's display name for headings: short forms (`UAcc`) where known."""
    return {"uncertainty_aware_accuracy": "UAcc"}.get(plugin) or display_name(plugin)
