"""Area under the ROC curve: can uncertainty tell questions that are uncertain from clear ones?"""

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, explain_one_class
from qualm.runners.plugins.metrics.auroc import auroc
from qualm.runners.plugins.metrics.auroc import minimum_standard_error as standard_error_of_auroc

CITES = ["wang_vlmuqbench"]
META = MetricMeta(higher_is_better=True, interval="proportion")


def auroc_uncertain(uncertainty: Floats, uncertain: Floats, weights: Weights) -> Floats:
    """Probability that the model is more uncertain on an uncertain question than a clear one.

    P(u_uncertain > u_clear) + 1/2 P(u_uncertain = u_clear), in [0, 1], 0.5 is chance, higher is better; exact, by ranks. Which questions
    are meant to be uncertain is said by the dataset's `uncertain:`; without it, those that cannot be answered are. Undefined where all
    questions are uncertain or none is.
    """
    return auroc(uncertainty, 1 - uncertain, weights)


def why_undefined(uncertainty: Floats, uncertain: Floats) -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    return explain_one_class(uncertain)


def classes(uncertainty: Floats, uncertain: Floats) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the question is uncertain."""
    return uncertain


def minimum_standard_error(uncertainty: Floats, uncertain: Floats, value: float) -> float:
    """Return the smallest credible standard error at this value: of independent questions."""
    return standard_error_of_auroc(uncertainty, 1 - uncertain, value)


def chance() -> float:
    """Return the AUROC of an uncertainty without information, 0.5."""
    return 0.5
