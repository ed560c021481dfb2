from rich.text import Text

from qualm.compiler.results.tables import format_measure, metrics_down, value_text
from qualm.runners.scoring.unscored import NO_CONFIDENCE


def row(n, unscored=0, value=0.5):
    return {"n": n, "n_unscored": unscored, "value": value}


def shown(cell):
    return Text("-" if cell is None else format_measure(cell["value"]))


def printed(cells, models, **options):
    return [line.plain.split() for line in metrics_down(Text("t"), cells, models, shown, **options).lines(100)]


def test_measures_have_three_decimals_and_a_minus_that_can_be_copied():
    assert (format_measure(0.12349), format_measure(-0.5), format_measure(None), format_measure(2.0)) == (
        "0.123",
        "-0.500",
        "undefined",
        "2.000",
    )


def test_metrics_go_down_and_models_across():
    cells = {("ece", "b"): row(16), ("ece", "a"): row(9), ("auroc", "a"): row(5, value=None)}
    lines = printed(cells, ["a", "b"])
    assert ["metric", "a", "b", "n"] in lines and ["ece", "0.500", "0.500", "9–16"] in lines and ["auroc", "undefined", "-", "5"] in lines


def test_unscored_questions_are_counted_where_that_is_asked_for():
    cells = {("ece", "a"): row(1200, 3), ("ece", "b"): row(1200, 7)}
    assert ["ece", "0.500", "0.500", "1,200", "(+7", "unscored)"] in printed(cells, ["a", "b"], unscored=True)
    assert ["ece", "0.500", "0.500", "1,200"] in printed(cells, ["a", "b"])


def test_a_value_its_interval_and_why_there_is_none():
    ends = {"low": 0.25, "high": 0.75}
    assert value_text({"value": 0.5} | ends).plain == "0.500 0.250–0.750"
    assert value_text({"value": 0.5, "low": -0.25, "high": 0.75}).plain == "0.500 -0.250 to 0.750"
    assert value_text({"value": 0.5, "low": None, "high": None}).plain == "0.500"
    assert [value_text(cell).plain for cell in (None, {"value": None}, {"value": None, "why": NO_CONFIDENCE})] == ["–", "undefined", "–"]
