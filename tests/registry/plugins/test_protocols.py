"""What a plugin of each kind is, read from its source: ours keep it, and each thing that breaks it is one line."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import ANSWERS, SCORED
from qualm.registry.plugins.protocols import PROTOCOLS, faults, unknown_columns
from qualm.registry.plugins.registry import KINDS, PluginError
from qualm.registry.sample import GENERATIONS
from qualm.registry.system import textfiles
from tests.support.checks.plugin_files import made_up


def test_every_kind_has_a_contract_that_all_of_ours_keep() -> None:
    assert set(PROTOCOLS) == set(KINDS)
    for kind in KINDS:
        assert [p.name for p in registry.every(kind)] == registry.names(kind)


def test_columns_are_those_that_there_are() -> None:
    assert list(ANSWERS) == GENERATIONS.names
    for kind in ("metrics", "estimators"):
        for plugin in registry.every(kind):
            mapped = plugin.declares["NEEDS"] if isinstance(plugin.declares.get("NEEDS"), dict) else {}
            assert not list(unknown_columns(kind, plugin.name, [c for c in plugin.reads if c not in mapped]))
    assert "weights" in SCORED
    (fault,) = unknown_columns("metrics", "mine", ["corect", "weights"])
    assert fault == "mine reads the column 'corect', which does not exist (did you mean 'correct'?)"


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("metrics", "def x(correct): ...", "(columns..., weights); got correct"),
        ("metrics", "def x(weights, correct): ...", "(columns..., weights); got weights, correct"),
        ("metrics", "META = MetricMeta(higher_is_better='yes')\ndef x(correct, weights): ...", "expected True or False or None or {"),
        ("metrics", "META = MetricMeta(higher_is_better=1)\ndef x(correct, weights): ...", "pattern of values: ...}}, got 1"),
        ("metrics", "META = MetricMeta(test=str(1))\ndef x(correct, weights): ...", "written out as literals; got an expression"),
        ("metrics", "META = MetricMeta(test='swap')\ndef x(correct, weights): ...", "one of 'exchange', 'independence', got 'swap'"),
        ("metrics", "META = MetricMeta(intervall='t')\ndef x(correct, weights): ...",
         "META: unknown field 'intervall' (did you mean 'interval'?)"),
        ("metrics", "META = 3\ndef x(correct, weights): ...", "META: expected MetricMeta(...)"),
        ("metrics", "META = MetricMeta(over=3)\ndef x(correct, weights): ...", "over: expected a column"),
        ("metrics", "META = MetricMeta(companions='ece')\ndef x(correct, weights): ...", "companions: expected a list of texts, got 'ece'"),
        ("metrics", "NEEDS = 3\ndef x(correct, weights): ...", "NEEDS: expected a list of columns"),
        ("metrics", "CITES = 'a'\ndef x(correct, weights): ...", "CITES: expected a list of texts"),
        ("metrics", "def x(correct, weights, *, k: int = 'a'): ...", "parameter 'k' of x: expected a default of type int, got 'a'"),
        ("metrics", "def x(correct, weights, *, k: bool = 1): ...", "expected a default of type bool, got 1"),
        ("metrics", "def x(correct, weights, *, k: list[str] = [1]): ...", "expected a default of type list"),
        ("metrics", "def x(correct, weights, *, k: Literal['a'] = 'b'): ...", "expected a default of type Literal"),
        ("metrics", "def x(correct, weights, *, k: Annotated[int, Ge(1)] = 0): ...", "expected a default of type Annotated"),
        ("metrics", "def x(correct, weights, *, k: int | None = 'a'): ...", "expected a default of type int | None"),
        ("metrics", "def x(*columns): ...", "expected every parameter by its name, got '*columns'"),
        ("metrics", "def x(correct, weights, **more): ...", "expected every parameter by its name, got '*more'"),
        ("perturbations", "MODALITY = 'picture'\ndef x(batch, rngs): ...", "one of 'image', 'text', 'cross', got 'picture'"),
        ("perturbations", "def x(batch, rngs): ...", "MODALITY: expected one of 'image', 'text', 'cross'; it is missing"),
        ("perturbations", "MODALITY = 'text'\ndef x(batch): ...", "(batch, rngs), perhaps context first; got batch"),
        ("perturbations", "MODALITY = 'text'\nSTRENGTHS = ('r',)\ndef x(batch, rngs): ...", "STRENGTHS names 'r'; expected"),
        ("perturbations", "MODALITY = 'text'\nKEEPS_ANSWER = 0\ndef x(batch, rngs): ...", "KEEPS_ANSWER: expected True or False, got 0"),
        ("models", "GIVES = 'text'\ndef x(context): ...", "GIVES: expected a list of columns that it gives, got 'text'"),
        ("metrics", "META = MetricMeta(interval='none')\ndef x(correct, weights): ...", "why_no_interval: expected beside a written"),
        ("metrics", "META = MetricMeta(why_no_interval='w')\ndef x(correct, weights): ...", "why_no_interval: expected beside"),
        ("models", "SERVER = 'url'\ndef x(context): ...", "SERVER names 'url'; expected parameters of x: none"),
        ("models", "def x(): ...", "expected positional parameters (context); got none"),
        ("judges", "def x(questions, references): ...", "expected positional parameters (questions, references, predictions)"),
        ("judges", "PEOPLE = 0\ndef x(questions, references, predictions): ...", "PEOPLE: expected a whole number above 0, got 0"),
        ("judges", "MARKS = 'said'\ndef x(questions, references, predictions): ...", "MARKS: expected a list of texts"),
        ("estimators", "def x(context): ...", "expected positional parameters (columns...), perhaps context first; got context"),
        ("conformal", "def x(probs, n): ...", "expected positional parameters (probs), perhaps uniform last; got probs, n"),
        ("datasets", "META = 'kind'\ndef x(context): ...", "META: expected a list of keys"),
        ("saliency", "def x(context): ...", "expected positional parameters (context, folder, rows); got context"),
        ("exports", "OF = 'all'\ndef x(context): ...", "OF: expected one of 'datasets', 'answers', 'results', 'runs', got 'all'"),
    ],
)  # fmt: skip
def test_what_breaks_it_is_one_line(tmp_path: Path, kind: str, source: str, expected: str) -> None:
    with made_up(tmp_path) as add:
        path = add(kind, "x", source)
        with pytest.raises(PluginError) as caught:
            registry.get(kind, "x")
    assert str(caught.value).startswith(str(path)) and expected in str(caught.value) and "\n" not in str(caught.value)


SOUND = {
    "datasets": "context", "preparations": "context samples", "pairs": "context", "perturbations": "batch rngs", "models": "context",
    "finetunes": "context", "tunings": "model", "judges": "questions references predictions", "estimators": "token_logprobs",
    "calibrators": "score right weights at", "conformal": "probs", "metrics": "correct weights", "generators": "context",
    "saliency": "context folder rows", "masks": "context", "inpainters": "context", "abstentions": "fit", "probes": "hidden_states",
    "nli": "context", "exports": "context",
}  # fmt: skip
NEEDED: dict[str, dict[str, Any]] = {
    "perturbations": {"MODALITY": "text"},
    "probes": {"TARGET": "wrong"},
}


def broken(kind: str, reads: str | None = None, parameters: tuple[str, ...] = (), **declares: Any) -> list[str]:
    own = SOUND[kind] if reads is None else reads
    return list(faults(kind, "x", own.split(), parameters, {**NEEDED.get(kind, {}), **declares}, ()))


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_sound_plugin_nothing_more_and_nothing_less_is_asked(kind: str) -> None:
    assert broken(kind) == []
    for constant in NEEDED.get(kind, {}):
        (fault,) = faults(kind, "x", SOUND[kind].split(), (), {k: v for k, v in NEEDED[kind].items() if k != constant}, ())
        assert fault.startswith(f"{constant}: expected ") and fault.endswith("; it is missing")
    more = f"{SOUND[kind]} more"
    if kind not in ("estimators", "probes"):  # which read as many columns as they like
        for reads in (more, "", SOUND[kind].rpartition(" ")[0]):
            (fault,) = broken(kind, reads)
            assert fault.startswith("x: expected positional parameters ") and f"got {', '.join(reads.split()) or 'none'}" in fault
    else:
        assert broken(kind, more) == [] and len(broken(kind, "")) == 1


@pytest.mark.parametrize(
    ("kind", "sound", "wrong"),
    [
        ("perturbations", ["context batch rngs"], ["batch rngs context more", "context rngs", "batch context rngs"]),
        (
            "judges",
            [f"context {SOUND['judges']} evidence choices", f"{SOUND['judges']} choices"],
            ["questions references context", "questions references context predictions"],
        ),
        ("conformal", ["probs uniform"], ["probs n", "probs uniform n"]),
        ("estimators", ["context token_logprobs", "token_logprobs draws"], ["context", "token_logprobs context"]),
        ("metrics", ["weights", "correct confidence weights"], ["correct weights confidence"]),
    ],
)
def test_positional_parameters_that_a_kind_leaves_open(kind: str, sound: list[str], wrong: list[str]) -> None:
    assert [broken(kind, reads) for reads in sound] == [[] for _ in sound]
    assert [len(broken(kind, reads)) for reads in wrong] == [1 for _ in wrong]


@pytest.mark.parametrize(
    ("kind", "constant", "sound", "wrong"),
    [
        ("datasets", "META", [[], ["kind"], ["kind", {"of": "column"}]], ["kind", [1], [{"by": "column"}], [{"of": "a", "by": "b"}]]),
        ("models", "GIVES", [[], ["text", {"draws": "n"}, {"draws": ["n", "m"]}], {"by": {"a": ["text"], "b": []}}],
         ["text", [1], [{"draws": 1}], [{"draws": [1]}], [{1: "n"}], {}, {"by": ["text"]}, {"by": {"a": "text"}}, {"a": {}, "b": {}}]),
        ("models", "ENGINE", [[], ("sampling",)], ["sampling", [1], {"a": "b"}]),
        ("metrics", "NEEDS", [[], ["draws"], {"of": "column"}, {"of": {"by": {"a": {}}}}],
         ["draws", [1], {1: "column"}, {"of": 1}, {"of": {"by": 1}}, {"of": {}}, {"of": {"a": {}, "b": {}}}]),
        ("metrics", "over", ["category", {"of": "category"}], [1, ["category"], {1: "category"}, {"of": 1}]),
        ("metrics", "companions", [["ece"]], ["ece", [1]]),
        ("metrics", "row_by_row", [True, False], [1, "yes"]),
        ("metrics", "target", ["1 - alpha"], ["alpha", 1]),
        ("judges", "PEOPLE", [1, 12], [0, -1, 1.0, True, "1"]),
        ("probes", "TARGET", ["wrong", {"high": "estimator"}], ["right", {"low": "estimator"}, {"high": 1}, {"high": "a", "low": "b"}]),
        ("exports", "OF", ["datasets", "answers", "results"], ["all", None]),
        ("nli", "ASKS", [{"each": "question"}, {"each": "answer", "times": "n", "only": "x"}], ["each", {}, {"each": "row"},
         {"each": "question", "every": 1}]),
        ("nli", "EXTRA", ["models", "train"], ["no_such_extra", 1]),
        ("tunings", "ADAPTER", [True], [0, None]),
    ],
)  # fmt: skip
def test_values_of_constants(kind: str, constant: str, sound: list[Any], wrong: list[Any]) -> None:
    assert [broken(kind, **{constant: value}) for value in sound] == [[] for _ in sound]
    for value in wrong:
        (fault,) = broken(kind, **{constant: value})
        assert fault.startswith(f"{constant}: expected "), value


def test_constants_that_go_together() -> None:
    assert broken("metrics", interval="none", why_no_interval="a maximum") == [] == broken("metrics", interval="t")
    assert len(broken("metrics", interval="none")) == 1 == len(broken("metrics", interval="t", why_no_interval="w"))
    for constant in ("SERVER", "BESIDE"):
        assert broken("probes", parameters=("url",), **{constant: "url"}) == []
        assert broken("probes", **{constant: "url"}) == [f"{constant} names 'url'; expected parameters of x: none"]
    assert broken("perturbations", parameters=("p", "q"), STRENGTHS=("q",)) == []
    told = broken("perturbations", parameters=("p", "q"), STRENGTHS=(*"zyxwvut", "q"))
    assert told == [f"STRENGTHS names '{name}'; expected parameters of x: p, q" for name in "tuvwxyz"]


def test_an_unknown_column_is_told_with_what_there_is() -> None:
    assert list(unknown_columns("estimators", "mine", ["token_logprobs"])) == [] == list(unknown_columns("judges", "mine", ["no_such"]))
    told = list(unknown_columns("metrics", "mine", ["qqqqqqqq", "weights"]))
    assert len(told) == 1 and "reads the column 'qqqqqqqq', which does not exist (there are: " in told[0]
    listed = told[0].partition("there are: ")[2].rstrip(")").split(", ")
    plain = [name for name in listed if not name.endswith("...")]
    assert plain == sorted(plain) and "correct" in plain and any(name.endswith("...") for name in listed)


def test_sound_detoldare_taken(tmp_path: Path) -> None:
    source = """
    def x(correct, weights, *, a: float = 1, b: float | None = None, c: Literal["u", "v"] = "u", d: list[str] = ["p"],
          e: Artifact = "model", f: Annotated[Chosen, Kind("nli")] = "lexical",
          g: Annotated[float, Gt(0), Lt(1)] = 0.5, h: dict[str, int] = {"a": 1}): ...
    """
    with made_up(tmp_path) as add:
        add("metrics", "x", source)
        assert len(registry.get("metrics", "x").parameters) == 8


@pytest.mark.parametrize("value", ["no_such_module_at_all", "json.no_such_part", "no module:at all:::", "os..path", ""])
def test_an_entry_point_that_leads_nowhere_disables_itself_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    points = [importlib.metadata.EntryPoint(name, value, "qualm.metrics") for name in ("theirs", "accuracy")]
    monkeypatch.setattr(registry, "_entry_points", lambda: importlib.metadata.EntryPoints(points))
    monkeypatch.setattr(textfiles, "_WARNINGS", set())
    registry._installed.cache_clear()
    try:
        assert "ece" in registry.names("metrics") and "theirs" not in registry.names("metrics")
        assert registry.get("metrics", "ece") and len(registry.every("metrics")) == len(registry.names("metrics")) - 1
        warnings = capsys.readouterr().err.splitlines()
        assert len([w for w in warnings if "'theirs'" in w]) == 1
        with pytest.raises(PluginError, match="metrics plugin 'theirs': "):
            registry.get("metrics", "theirs")
        with pytest.raises(PluginError, match="rename it"):
            registry.get("metrics", "accuracy")  # which of the two is meant is not guessed
    finally:
        monkeypatch.undo()
        registry._installed.cache_clear()


def test_a_broken_file_disables_its_plugin_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with made_up(tmp_path) as add:
        add("metrics", "mine", "def mine(")
        assert "accuracy" in [p.name for p in registry.every("metrics")]
        registry.every("metrics")
        assert capsys.readouterr().err.count("cannot be read as Python") == 1
        with pytest.raises(PluginError, match=r"mine\.py: cannot be read as Python"):
            registry.get("metrics", "mine")


READS = {
    "metrics": ["weights"],
    "models": ["context"],
    "datasets": ["context"],
    "probes": ["a"],
    "judges": ["q", "r", "p"],
}
NEEDED: dict[str, dict[str, Any]] = {
    "perturbations": {"MODALITY": "image"},
    "probes": {"TARGET": "wrong"},
}


@pytest.mark.parametrize(
    ("kind", "constant", "good", "bad"),
    [
        (
            "metrics",
            "NEEDS",
            [[], ["a"], {"k": "a"}, {"k": {"p": {"x": "a"}}}],
            ["a", [1], {"k": 1}, {1: "a"}, {"k": {"p": 1}}, {"k": {"p": {}, "q": {}}}],
        ),
        (
            "models",
            "GIVES",
            [[], ["a"], [{"a": "k"}, "b"], [{"a": ["k", "l"]}], {"p": {1: ["a"], 2: []}}],
            ["a", ["a", 1], [{"a": 1}], [{1: "k"}], [{"a": ["k", 1]}], {"p": ["a"]}, {"p": {1: ["a"], 2: "b"}}, {"p": {}, "q": {}}],
        ),
        ("datasets", "META", [[], ["a"], ["a", {"of": "k"}]], ["a", ["a", 1], [{"of": "k", "x": 1}], [{"off": "k"}]]),
        ("metrics", "over", ["a", {"k": "a"}], [1, ["a"], {"k": 1}, {1: "a"}]),
        ("probes", "TARGET", ["wrong", {"high": "k"}], ["right", {"high": 1}, {"low": "k"}, {"high": "k", "x": "y"}]),
        ("judges", "PEOPLE", [1, 3], [0, -1, True, 1.5, "1"]),
        ("metrics", "higher_is_better", [True, False, None], [1, 0, "True"]),
        ("metrics", "test", ["exchange", "independence"], ["swap", None]),
        ("metrics", "row_by_row", [True, False], [1, None]),
        ("metrics", "companions", [[], ["a"], ("a", "b")], ["a", ["a", 1], None]),
        ("models", "FOLDER", ["a"], [1, None, ["a"]]),
        (
            "models",
            "ASKS",
            [{"each": "question"}, {"each": "image", "times": "k"}, {"each": "answer", "only": "x"}],
            ["each", {}, {"each": "sample"}, {"times": "k"}, {"each": "image", "other": 1}],
        ),
    ],
)
def test_what_a_constant_may_say(kind: str, constant: str, good: list[Any], bad: list[Any]) -> None:
    def wrong(value: Any) -> list[str]:
        return list(faults(kind, "x", READS[kind], ["k"], {**NEEDED.get(kind, {}), constant: value}, []))

    assert [value for value in good if wrong(value)] == []
    assert [value for value in bad if not (found := wrong(value)) or not found[0].startswith(f"{constant}: expected ")] == []


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("datasets", ["context"], ["", "context a"]),
        ("preparations", ["context samples"], ["context", "context samples a"]),
        (
            "perturbations",
            ["batch rngs", "context batch rngs"],
            ["batch", "context batch", "batch context", "context context rngs", "a b c"],
        ),
        ("calibrators", ["a b c d"], ["a b c", "a b c d e"]),
        ("conformal", ["probs", "probs uniform"], ["", "probs other", "probs uniform other"]),
        ("metrics", ["weights", "a weights"], ["", "a", "weights a"]),
        ("estimators", ["a", "context a b"], ["", "context", "a context"]),
        (
            "judges",
            ["q r p", "q r p choices", "context q r p evidence choices"],
            ["q r", "context q r", "q r p other", "q context r p", "q r p context"],
        ),
        ("saliency", ["a b c"], ["a b", "a b c d"]),
    ],
)
def test_what_a_plugin_takes(kind: str, good: list[str], bad: list[str]) -> None:
    def wrong(reads: str) -> list[str]:
        return list(faults(kind, "x", reads.split(), [], NEEDED.get(kind, {}), []))

    assert [reads for reads in good if wrong(reads)] == []
    for reads in bad:
        (fault,) = wrong(reads)
        assert fault.startswith("x: expected positional parameters (") and fault.endswith(f"; got {', '.join(reads.split()) or 'none'}")


def test_parameters_that_a_constant_names_in_order() -> None:
    declares = {"MODALITY": "text", "STRENGTHS": ["z", "b", "a"], "SERVER": "url"}
    assert list(faults("perturbations", "x", ["batch", "rngs"], ["b", "c"], declares, [])) == [
        "STRENGTHS names 'a'; expected parameters of x: b, c",
        "STRENGTHS names 'z'; expected parameters of x: b, c",
        "SERVER names 'url'; expected parameters of x: b, c",
    ]


@pytest.mark.parametrize(
    ("declares", "good"),
    [
        ({}, True),
        ({"interval": "t"}, True),
        ({"interval": "none"}, False),
        ({"interval": "none", "why_no_interval": "a"}, True),
        ({"why_no_interval": "a"}, False),
        ({"interval": "t", "why_no_interval": "a"}, False),
    ],
)
def test_why_there_is_no_interval_is_said_where_there_is_none(declares: dict[str, str], good: bool) -> None:
    said = ["why_no_interval: expected beside a written interval='none', and only there"]
    assert list(faults("metrics", "x", ["weights"], [], declares, [])) == ([] if good else said)
