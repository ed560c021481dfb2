"""Vocabulary of samples, plugin rule, cards and adapters."""

from collections.abc import Mapping
from types import MappingProxyType

SPEC_STAGE = "spec"
"""The first stage of every compiled pipeline, which compiles the spec; its output is neither in git nor in DVC's cache."""

CLEAN = "clean"
"""The variant of a sample that no perturbation has touched."""

GREEDY = 0
"""The draw of the greedy answer; sampled answers are draws 1..N."""

DRAWS = "draws"
"""The word for sampled answers in what a model is asked for and in what it declares to give."""

ASKED = "asked"
"""Key of a sample's `meta`: the question it is about, where models are asked whether that is uncertain."""

SHOWN_DRAWS = frozenset({"p_true_sampling"})
"""Columns that hold what a model says of its answer when its sampled answers are shown to it: asking for one asks for draws."""

ALL = "all"
"""The slice of all scored questions."""

MACRO, DATASETS = "macro:", "datasets"
MACRO_DATASETS = f"{MACRO}{DATASETS}"
"""A macro average is a slice `macro:FIELD` of its dataset, or of the dataset `macro:datasets`; no dataset can have such a name."""

EVIDENCE = "evidence"
"""Key of a sample's `meta`: what is known of its image in words, for judges that ask for it."""

REJECTED = "rejected"
"""Key of a sample's `meta`: an answer that is worse than its references, for training that prefers."""

HISTORY = "history"
"""Key of a sample's `meta`: what was said before its question, a JSON list of [question, answer]. Tuning shows it; nothing else does."""

MODALITIES = ("image", "text", "cross")
"""Modalities of perturbations and of uncertainty: the image, the text, or how they fit together."""

UNCERTAIN = "uncertain"
"""Key of a sample's `meta`: "1" where the question is meant to be uncertain and "0" where not, by the spec's `uncertain:`."""

CUT_SHORT, ENDED_THINKING = "cut short by the budget", "ended while thinking"
HELD_BACK, OVER_LIMIT = "held back by the server's content filter", "longer than the request allows"
NO_READABLE_TEXT = "the reply has no readable text"
NO_JSON_ANSWER = "the reply has no JSON object with an `answer`"
WITHOUT_ANSWER = (CUT_SHORT, ENDED_THINKING, HELD_BACK, OVER_LIMIT, NO_READABLE_TEXT, NO_JSON_ANSWER)
"""Why a model has no answer: what the column `no_answer` says."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Labels of the first 26 options of a multiple-choice question, in order; prompts have no others."""

OPTION_PARTS: Mapping[str, str] = MappingProxyType({"label": "letter of the right option", "option": "text of the right option"})
"""Values of `per:` that part questions by their right option, in words; every other value is a field of the samples."""

VALIDATION = "val"
"""The split that thresholds and probes are fitted on: asked where something is, and not scored."""

BLIND: Mapping[str, str] = MappingProxyType({
    "refuser": "blind_refuser",
    "picture_refuser": "picture_refuser",
    "swapped": "swapped_picture",
    "removed": "removed_picture",
})  # fmt: skip
"""Ways not to look, by the spec's names, and what a model is called behind its own name that answers so: a classifier of questions, or
one of images, refuses for it; it is shown another sample's image; it is shown none."""
REFUSERS = ("refuser", "picture_refuser")
"""Baselines in which a classifier refuses that sees only the text or only the image."""

PICTURES = ("swapped", "removed")
"""Baselines in which the model is asked without the question's own image; also variant names."""


def method_name(label: str, fit: str) -> str:
    """Return an abstention method's label, with " (optimistic)" if fitted on "test"."""
    return f"{label} (optimistic)" if fit == "test" else label


def abstaining_name(model: str, method: str) -> str:
    """Return "MODEL+METHOD", the name of a model that abstains by a method."""
    return f"{model}+{method}"


def option_label(index: int) -> str:
    """Return an option's label: its letter, or its number from 1 for an option after the 26th.

    >>> [option_label(index) for index in (0, 25, 26, 63)]
    ['A', 'Z', '27', '64']
    """
    return LETTERS[index] if index < len(LETTERS) else str(index + 1)


def baseline_model(name: str) -> str:
    """Return MODEL of a blind baseline's name "MODEL+KIND"; "" for any other name.

    >>> baseline_model("base+swapped_picture"), baseline_model("base+thresholding")
    ('base', '')
    """
    model, plus, way = name.rpartition("+")
    return model if plus and way in BLIND.values() else ""
