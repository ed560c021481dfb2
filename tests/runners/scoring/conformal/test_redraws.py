"""How sets are calibrated anew is worked out when it is asked for, and named before."""

import numpy as np

from qualm.runners.scoring.conformal.draws import Redraw
from qualm.runners.scoring.conformal.redraws import Redraws, content_of
from qualm.runners.store.scores import content_digest

SETTING = {"label": "ours", "alpha": 0.1, "quantile": "standard", "empty_set": "argmax", "scores": []}
LAC, RANDOMISED = ({"label": name, "plugin": name, "args": {}} for name in ("lac", "aps_randomised"))


def made(shift: float = 0.0) -> Redraw:
    enters = np.arange(6.0).reshape(3, 2) + shift
    return Redraw(enters[:, 0], enters, np.zeros(3, dtype=np.int64), 0.1, "standard", 0.0)


def test_nothing_is_worked_out_before_it_is_asked_for() -> None:
    calls = []
    redraws = Redraws()
    redraws.add("lac", lambda: calls.append("lac") or made(), ["numbers"])  # type: ignore[func-returns-value]
    digest = content_digest(redraws)
    assert not calls and list(redraws) == ["lac"] and len(redraws) == 1 and redraws.get("aps") is None
    assert redraws["lac"].alpha == 0.1 and calls == ["lac"]
    other = Redraws()
    other.add("lac", made, ["other numbers"])
    assert content_digest(other) != digest


def test_what_has_no_name_counts_by_its_numbers() -> None:
    digests = []
    for shift in (0.0, 0.0, 1.0):
        redraws = Redraws()
        redraws.add("lac", lambda shift=shift: made(shift), None)  # type: ignore[misc]
        digests.append(content_digest(redraws))
    assert digests[0] == digests[1] != digests[2]


def test_all_but_the_label_of_a_setting_counts() -> None:
    own = content_of(SETTING, LAC, "numbers")
    assert own == content_of(SETTING | {"label": "share", "scores": [LAC]}, LAC, "numbers")
    others = [(SETTING | {"alpha": 0.2}, LAC, "numbers"), (SETTING, LAC | {"plugin": "margin"}, "numbers"), (SETTING, LAC, "other")]
    assert all(content_of(*other) != own for other in others)


def test_what_reads_samples_is_worked_out() -> None:
    assert content_of(SETTING | {"per": "category"}, LAC, "numbers") is None and content_of(SETTING, RANDOMISED, "numbers") is None
