"""Cells: what one model did on one dataset under one variant, as the columns that metrics read.

A model that abstains by a method of the spec has cells of its own, named `MODEL+METHOD`, after those of the model; so has one that was
asked without the samples' own images.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry import abstaining_name
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF, MARKED_BY, RATED_BY, SAMPLED_COLUMNS, SET_COLUMNS
from qualm.registry.plugins.columns import field_of
from qualm.registry.sample import CLEAN
from qualm.runners.data.aligned import Floats, Samples
from qualm.runners.scoring.calibration.conformal_draws import Redraw
from qualm.runners.scoring.calibration.fits import Recalibration
from qualm.runners.scoring.collapse import Frequent, describe_collapse
from qualm.runners.scoring.unscored import Reasons

CHOICE_ONLY = frozenset({"predicted", "n_options", "option_probabilities", "right_option", "covered", "set_size"})
"""Columns that only multiple-choice rows have; a metric that reads one is over those rows."""
LABELS = ("labelled", "people_rating")
"""Columns of labels by people."""
OPEN_ONLY = frozenset({"pred_is_idk", "gt_is_idk", "hedges", *LABELS}) | SAMPLED_COLUMNS
"""Columns that only answers in words have; a metric that reads one is over open questions and `IN_WORDS`."""
IN_WORDS = "in_words"
"""The column that tells which multiple-choice questions have no numbers for their options, where a judge read some answers to such."""
PAIRED_UNCERTAINTY = frozenset({"clean_uncertainty", "uncertainty_change"})
"""Columns of one estimator on two variants of a sample."""
PAIRED = PAIRED_UNCERTAINTY | {"clean_correct"}
INPUT_CHANGED = "input_changed"
"""The column that tells which perturbed inputs are not the clean ones."""
OF_REFERENCE = (
    frozenset({"correct", "answerable", "uncertain", "gt_is_idk", "says_uncertain", "right_option", "people_rating"}) | SAMPLED_COLUMNS
)
"""Columns that say what is right, or whether an answer is."""
OF_DATA = frozenset({"answerable", "uncertain", "fold", "gt_is_idk", "right_option"})
"""Columns that the data give, and no reply."""
BOUNDS_OF_UNREAD = "bounds"
"""The default of `unread:`: a value stands beside what it would be if all unread answers were wrong, or right."""
NO_REFERENCE = "the old answer need not hold for the rewritten question"


@dataclass
class Setting:
    """Prediction sets of one conformal setting, for one model, dataset and variant."""

    is_calibration: Floats
    scores: dict[str, dict[str, Floats]] = field(default_factory=dict)
    """Score -> the columns `covered` and `set_size`."""
    redraws: dict[str, Redraw] = field(default_factory=dict)
    """Score -> how to calibrate it anew, where the stage was told the setting."""

    def without_reference(self) -> Setting:
        scores = {name: of | {"covered": np.full_like(of["covered"], np.nan)} for name, of in self.scores.items()}
        return replace(self, scores=scores)


@dataclass
class Cell:
    """Answers of one model to one dataset under one variant, as columns that metrics read.

    Every column is (n,), one of options (n, K), NaN where a row has no value.
    """

    model: str
    samples: Samples
    variant: str
    columns: dict[str, Floats]
    settings: dict[str, Setting]
    uncertainties: dict[str, Floats]
    clean_uncertainties: dict[str, Floats] = field(default_factory=dict)
    """Uncertainties of the same model's answers to the clean inputs, if this is another variant; columns then have `clean_correct`."""
    why_unscored: str = ""
    """Why no answer is held to its reference, where none is."""
    why_unlabelled: str = ""
    """Why there are no columns of `LABELS`, if the spec has labels."""
    reasons: Reasons | None = None
    frequent: Frequent = ("", np.nan)
    collapsed: str = ""
    """Why means over perturbations leave it out, where they do (`qualm.runners.scoring.collapse`)."""
    unread: str = BOUNDS_OF_UNREAD
    """Treatment of an answer that no judge could read: `bounds`, `exclude` or `wrong`."""
    disputed: str = ""
    """Sentence on how often a recorded log's own verdict differs, with examples."""
    caution: str = ""
    """Sentence on estimators that compare these answers by words alone, though they are sentences."""
    asked: NDArray[np.bool_] | None = None
    """Rows that the model was asked, of one that is asked a part of them; None = all."""
    recalibrations: list[Recalibration] = field(default_factory=list)
    """Its confidence under each calibrator, and as it is on the same rows."""
    own_intervals: dict[Any, tuple[float, float] | str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Intervals that metrics computed by their own methods, so that equal rows are asked for once."""

    def applies(self, reads: frozenset[str]) -> bool:
        """Return whether a metric that reads these columns is defined for this cell."""
        return reads <= self.available_columns(reads)

    def available_columns(self, reads: frozenset[str]) -> set[str]:
        """Return the cell's columns, and those of sample fields (`code_of_...`) in `reads` it has."""
        columns = {*self.columns, "is_calibration"}
        columns |= SET_COLUMNS if self.settings else set()
        columns |= {"uncertainty"} if self.uncertainties else set()
        columns |= PAIRED_UNCERTAINTY if self.estimators_of_both else set()
        return columns | {c for c in reads if c.startswith((GROUP_OF, CODE_OF)) and not np.isnan(self.coded(c)).all()}

    def coded(self, column: str) -> Floats:
        """Return (n,) codes of a `code_of_` or `group_of_` column's sample field, NaN where empty."""
        return self.samples.codes(field_of(column))

    @property
    def place(self) -> dict[str, str]:
        """Return the cell's `model`, `dataset` and `variant`, as columns of tables."""
        return {"model": self.model, "dataset": self.samples.name, "variant": self.variant}

    @property
    def in_words(self) -> NDArray[np.bool_]:
        """Return (n,) True for rows answered in words rather than by option probabilities."""
        is_open: NDArray[np.bool_] = self.samples.n_options == 0
        return is_open | (self.columns[IN_WORDS] == 1) if IN_WORDS in self.columns else is_open

    @property
    def estimators_of_both(self) -> list[str]:
        """Return the estimators that have values for this variant and for the clean one."""
        return [name for name in self.uncertainties if name in self.clean_uncertainties]

    def without_reference(self) -> Cell:
        """Return a copy that treats every reference answer as unknown: NaN, with the reason."""
        gone = {
            name: np.full_like(values, np.nan)
            for name, values in self.columns.items()
            if name in OF_REFERENCE or name.startswith((RATED_BY, MARKED_BY))
        }
        settings = {name: setting.without_reference() for name, setting in self.settings.items()}
        return replace(self, columns=self.columns | gone, settings=settings, why_unscored=NO_REFERENCE)

    def blind(self) -> Cell:
        """Return a copy as model MODEL+VARIANT on clean inputs, without uncertainties and sets."""
        columns = {name: values for name, values in self.columns.items() if name != INPUT_CHANGED}
        blinded = abstaining_name(self.model, self.variant)
        return replace(self, model=blinded, variant=CLEAN, columns=columns, uncertainties={}, settings={}, recalibrations=[])

    def paired(self, clean: Cell | None) -> Cell:
        """Return a copy with clean columns added, and if it collapses the reason; itself if None."""
        if clean is None:
            return self
        columns = self.columns | {"clean_correct": clean.columns["correct"]}
        why = describe_collapse(self.samples, self.columns["correct"], clean.columns["correct"], self.frequent, clean.frequent)
        return replace(self, columns=columns, clean_uncertainties=clean.uncertainties, collapsed=why)

    @property
    def changed(self) -> NDArray[np.bool_] | None:
        """Return (n,) True where the input is not the clean one; None if all differ or if unknown."""
        changed = self.columns.get(INPUT_CHANGED)
        return None if changed is None or not (changed == 0).any() else changed == 1
