"""Stage `abstain`: from the clean answers a method may see, the confidence below which a model declines; applied everywhere.

A model that abstains is scored as a model of its own, `base+thresholded`. Which rows the threshold was chosen on decides
whether its scores are honest, so these rows are never scored, or the name says that they were. So is a model before which a
classifier of questions refuses, `base+blind_refuser`, or one of images, `base+picture_refuser`.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from qualm.registry import REFUSERS, VALIDATION, method_name
from qualm.registry.sample import ABSTENTION_RULES, ABSTENTIONS
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import read_samples
from qualm.runners.data.splits import fit_rows, scored_rows
from qualm.runners.results.blind_refuser import BlindRefuser
from qualm.runners.runtime.records import publish_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.apply_abstention import Outcome, apply_abstention
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.read_cells import read_cells
from qualm.runners.scoring.measuring.tables import Tables

KIND = StageKind(
    title="Choose when to decline",
    reads=("datasets", "generations", "judgements", "judging"),
    writes={"abstentions": "abstentions.parquet", "abstention_rules": "abstention_rules.parquet"},
    colour="#eeca3b",
)


def run(stage: Stage) -> None:
    """Fit abstention methods per model on datasets with open questions; write outcomes, rules."""
    tables = Tables(stage)
    parts: list[pa.Table] = []
    rules: list[dict[str, Any]] = []
    methods = stage.params["abstentions"]
    refusing = [BlindRefuser(stage, way) for way in REFUSERS]
    lacking: dict[str, list[str]] = {m["label"]: [] for m in methods}
    for name, folder in sorted(stage.inputs["datasets"].items()):
        samples = read_samples(name, folder)
        if samples.n_options.all():
            stage.count(**{"multiple-choice datasets left out": 1})
            continue
        scored = scored_rows(stage, samples)
        chosen = {m["label"]: fit_rows(f"abstention '{m['label']}'", samples, scored, m, samples.n_options == 0) for m in methods}
        for label in (label for label, rows in chosen.items() if not rows.any()):
            lacking[label].append(name)
        for cells in _by_model(read_cells(stage, samples, tables)):
            outcomes: list[Outcome] = [refuser.apply(cells, scored) for refuser in refusing if cells[0].model in refuser.models]
            for method in methods:
                if cells[0].model in method["of"] and chosen[method["label"]].any():
                    outcomes.append(apply_abstention(method, cells, chosen[method["label"]], scored))
            for own_rules, own_tables in outcomes:
                rules += own_rules
                parts += own_tables
    _check_fitted(stage, lacking, {r["method"] for r in rules})
    for refuser in refusing:
        refuser.check()
    whole = pa.concat_tables([ABSTENTIONS.empty_table(), *parts])
    stage.count(answers=whole.num_rows, rules=len(rules), not_attained=sum(not r["attained"] for r in rules))
    publish_table(stage, "abstentions", whole, ABSTENTIONS)
    publish_table(stage, "abstention_rules", rules, ABSTENTION_RULES)


def _check_fitted(stage: Stage, lacking: dict[str, list[str]], fitted: set[str]) -> None:
    """Count (method, dataset) pairs without validation rows; StageError: a method has none."""
    stage.count(datasets_without_validation=sum(map(len, lacking.values())))
    for method in stage.params["abstentions"]:
        without = lacking[method["label"]]
        if without and method_name(method["label"], method["fit"]) not in fitted:
            raise StageError(
                f"abstention '{method['label']}': no dataset has open questions of split '{VALIDATION}' to choose on "
                f"({', '.join(without)}); make some, or choose on half of the test split with `fit: half`"
            )


def _by_model(cells: Iterator[Cell]) -> Iterator[list[Cell]]:
    """Yield lists of cells, one list per model with all its variants."""
    held: list[Cell] = []
    for cell in cells:
        if held and held[0].model != cell.model:
            yield held
            held = []
        held.append(cell)
    if held:
        yield held
