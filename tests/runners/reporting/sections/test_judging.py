"""Judges against people: a row each, and undefined where nothing could be compared."""

import json

from qualm.runners.reporting.sections.judging import judging
from tests.runners.reporting.made_results import made_results

SHARE = "90.0% (85.0% – 92.5%) of 600"
NONE = ("share", "low", "high")


def of(**more):
    refusals = {"accuracy": 0.75, "low": 0.5, "high": 0.875, "missed": 1234, "imagined": 2, **more.pop("refusals", {})}
    ratings = {"tau_b": -0.25, "low": -0.5, "high": 0.0, "p": 0.00001, "equal": 0.5, "n": 1000, **more.pop("ratings", {})}
    shares = {"sensitivity": {"n": 600, "share": 0.9, "low": 0.85, "high": 0.925}, "specificity": dict.fromkeys(NONE) | {"n": 0}}
    return {"refusals": refusals, "ratings": ratings, **shares, "n": 5000, "unread": 3, **more}


def sheet(tmp_path, record):
    (tmp_path / "judging.json").write_text(json.dumps(record))
    return judging(made_results(inputs={"judging": str(tmp_path / "judging.json")}))


def test_a_row_per_judge_in_their_order(tmp_path):
    none = of(refusals={"accuracy": None}, ratings={"tau_b": None, "low": None, "high": None, "p": None, "equal": None})
    made = sheet(tmp_path, {"zeta": of(), "alpha": none})
    assert made.rows == [
        [
            "zeta",
            "75.0% (50.0% – 87.5%)",
            "1,234",
            "2",
            "−0.250 (−0.50 – 0.00)",
            "1.0e−05",
            "50.0% of 1,000",
            SHARE,
            "undefined",
            "5,000",
            "3",
        ],
        ["alpha", "undefined", "1,234", "2", "undefined", "undefined", "undefined", SHARE, "undefined", "5,000", "3"],
    ]
    assert len(made.header) == 11 and made.caption == "Judges against people"
    assert sheet(tmp_path, {"a": of(refusals={"low": None, "high": None})}).rows[0][1] == "75.0%"


def test_without_labelled_answers_there_is_no_sheet(tmp_path):
    assert judging(made_results()) is None and sheet(tmp_path, {}) is None
