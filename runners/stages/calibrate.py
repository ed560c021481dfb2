"""Stage `calibrate`: conformal thresholds from the clean calibration rows, prediction sets of every row of every variant."""

from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry.sample import CONFORMAL_SETS, CONFORMAL_THRESHOLDS
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import Samples, greedy_by_variant, option_probabilities
from qualm.runners.data.calibration_split import Bools
from qualm.runners.data.splits import read_scored
from qualm.runners.runtime.records import publish_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.calibration.apply_conformal import apply_conformal
from qualm.runners.scoring.calibration.conformal_draws import precision
from qualm.runners.scoring.calibration.conformal_parts import calibrating_rows, check_parts

KIND = StageKind(
    title="Calibrate conformal sets",
    reads=("datasets", "generations"),
    writes={"sets": "conformal_sets.parquet", "thresholds": "conformal_thresholds.parquet"},
    colour="#9d755d",
)

MAX_OPTIONS = 64


def run(stage: Stage) -> None:
    """Apply conformal settings to multiple-choice answers; write the sets and thresholds."""
    datasets = {name: read_scored(stage, name, folder) for name, folder in sorted(stage.inputs["datasets"].items())}
    check_parts(stage.params["settings"], [d for d in datasets.values() if d.n_options.any()])
    splits = {(s["label"], d.name): _split(s, d) for s in stage.params["settings"] for d in datasets.values() if d.n_options.any()}
    sets: list[pa.Table] = []
    limits: list[dict[str, Any]] = []
    for model, files in sorted(stage.inputs["generations"].items()):
        for dataset, path in sorted(files.items()):
            samples = datasets[dataset]
            if not samples.n_options.any():
                stage.count(**{"open-ended datasets left out": 1})
                continue
            variants = greedy_by_variant(path, ["option_logits"])
            probs = {
                p: {v: option_probabilities(samples, samples.filter_table(t), f"{path}: {v}", p) for v, t in variants.items()}
                for p in {precision(setting) for setting in stage.params["settings"]}
            }
            for setting in stage.params["settings"]:
                calibrates = splits[setting["label"], dataset]
                if not calibrates.any():  # calibrated within a field that no question of the dataset has
                    stage.count(**{"settings left out, whose field a dataset lacks": 1})
                    continue
                for ref in setting["scores"]:
                    key = {"model": model, "dataset": dataset, "setting": setting["label"], "score": ref["label"]}
                    own_limits, own_sets = apply_conformal(samples, probs[precision(setting)], calibrates, setting, ref, key)
                    limits.extend(own_limits)
                    sets.extend(own_sets)
    whole = pa.concat_tables([CONFORMAL_SETS.empty_table(), *sets])
    stage.count(sets=whole.num_rows, undefined=whole["set_size"].null_count, thresholds=len(limits))
    if lacking := sum("threshold" not in limit for limit in limits):
        stage.count(parts_without_a_threshold=lacking)
    if infinite := sum(bool(np.isinf(limit.get("threshold", 0))) for limit in limits):
        stage.count(settings_without_a_threshold=infinite)
    publish_table(stage, "sets", whole, CONFORMAL_SETS)
    publish_table(stage, "thresholds", limits, CONFORMAL_THRESHOLDS)


def _split(setting: dict[str, Any], samples: Samples) -> Bools:
    """Return (n,) True for calibration rows; StageError if a question has too many options."""
    if samples.n_options.max() > MAX_OPTIONS:
        raise StageError(f"dataset '{samples.name}': a question has {samples.n_options.max()} options; sets hold at most {MAX_OPTIONS}")
    return calibrating_rows(samples, setting)
