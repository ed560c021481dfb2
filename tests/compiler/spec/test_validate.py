from typing import Annotated, Literal, Union

import pytest
from annotated_types import Ge, Gt, Lt
from pydantic import BaseModel, ConfigDict

from qualm.compiler.spec.validate import combinations, label, model, sound_part, takes_list
from qualm.compiler.spec.yaml_positions import parse
from qualm.registry.plugins.registry import REQUIRED, Chosen, Kind, Parameter


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    count: Annotated[int, Ge(1)] = 1


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str
    inner: dict[str, Inner] = {}


def read(text, needed=None):
    problems = []
    found, document = sound_part(Whole, parse(text, "s.yaml"), problems, needed or {})
    return found, [f"{p.mark.line}:{p.mark.col}: {p.path}: {p.message}" for p in problems], document.data


def test_a_sound_document_is_itself():
    found, problems, _ = read("name: a\ninner: {x: {count: 2}}\n")
    assert found == Whole(name="a", inner={"x": Inner(count=2)}) and problems == []


def test_every_problem_is_told_with_its_place_and_the_rest_goes_on():
    found, problems, data = read("name: a\ninner:\n  x: {count: 0}\n  y: {cuont: 1}\n  z: {count: 3}\n")
    assert len(problems) == 2 and problems[0].startswith("3:14: inner.x.count: ") and problems[1].startswith("4:")
    assert found is not None and found.inner["z"].count == 3 and found.name == "a" and data["inner"]["z"] == {"count": 3}


def test_what_is_needed_stands_in_for_what_lacks():
    found, problems, _ = read("inner: {}\n", {"name": "stand-in"})
    assert found == Whole(name="stand-in") and len(problems) == 1 and "name" in problems[0]
    assert read("inner: {}\n")[0] is None


@pytest.mark.parametrize("text", ["[1]\n", "just text\n"])
def test_what_is_no_mapping_has_no_sound_part(text):
    found, problems, _ = read(text)
    assert found is None and len(problems) == 1


def test_a_whole_document_or_nothing():
    problems = []
    assert model(Inner, parse("count: 2\n", "s"), problems) == Inner(count=2) and problems == []
    assert model(Inner, parse("count: 0\n", "s"), problems) is None and len(problems) == 1


def test_an_unknown_key_is_told_at_the_key_and_a_wrong_value_at_the_value():
    _, problems, _ = read("name: a\ninner:\n  x:\n    cuont:\n      1\n  y: {count: 0}\n")
    assert problems == ["4:5: inner.x.cuont: unknown key 'cuont'", "6:14: inner.y.count: expected a number >= 1, got 0"]


def test_the_nearest_key_is_that_of_the_mapping_it_stands_in():
    problems = []
    model(Whole, parse("name: a\ninner: {x: {coun: 1}}\nnme: b\n", "s"), problems)
    assert {p.path: p.hint for p in problems} == {"inner.x.coun": "did you mean 'count'?", "nme": "did you mean 'name'?"}


def parameter(name, annotation, default=REQUIRED):
    return Parameter(name, annotation, default, "t")


def or_none(annotation):
    """As `annotation | None` is read of a plugin's source."""
    return Union[annotation, None]  # noqa: UP007 - made at run time


PARAMETERS = [
    parameter("radius", Annotated[float, Gt(0)]),
    parameter("times", Annotated[int, Ge(1), Lt(10)], 2),
    parameter("kinds", list[str], ["a"]),
    parameter("unit", or_none(Literal["words", "letters"]), None),
]


def swept(text, parameters=PARAMETERS, fallbacks=None):
    """Pairs of what is swept and all parameters, and the problems, of a mapping under `p`."""
    problems = []
    document = parse(text, "s.yaml")
    pairs = combinations(parameters, document.data["p"], document, ("p",), problems, "blur", fallbacks)
    return pairs, [f"{p.mark.line}:{p.mark.col}: {p.path}: {p.message}" for p in problems]


def test_values_are_in_one_form_and_defaults_filled_in():
    pairs, problems = swept("p: {radius: 2}\n")
    assert problems == [] and pairs == [({}, {"radius": 2.0, "times": 2, "kinds": ["a"], "unit": None})]
    assert isinstance(pairs[0][1]["radius"], float)
    ((_, whole),), problems = swept("p: {radius: 1.5, times: 3.0, kinds: [b, c], unit: words}\n")
    assert problems == [] and whole == {"radius": 1.5, "times": 3, "kinds": ["b", "c"], "unit": "words"} and type(whole["times"]) is int


def test_lists_of_what_is_no_list_are_sweeps_over_every_combination():
    pairs, problems = swept("p: {radius: [1, 2], times: [3, 4], kinds: [a, b]}\n")
    assert problems == [] and [point for point, _ in pairs] == [
        {"radius": 1.0, "times": 3}, {"radius": 1.0, "times": 4}, {"radius": 2.0, "times": 3}, {"radius": 2.0, "times": 4},
    ]  # fmt: skip
    assert all({**whole, **point} == whole and whole["kinds"] == ["a", "b"] for point, whole in pairs)


def test_what_params_yaml_says_stands_in_for_a_default_and_not_for_the_spec():
    ((_, whole),), _ = swept("p: {radius: 1}\n", fallbacks={"times": 7, "radius": 5, "other": 1})
    assert (whole["times"], whole["radius"]) == (7, 1.0) and "other" not in whole


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p: {}\n", ["1:4: p: blur needs the parameter 'radius' (t)"]),
        ("p: {radius: 1, time: 2}\n", ["1:16: p.time: blur has no parameter 'time'"]),
        ("p: {radius: 0}\n", ["1:13: p.radius: expected a number > 0.0, got 0"]),
        ("p: {radius: 1, times: 10}\n", ["1:23: p.times: expected a number < 10, got 10"]),
        ("p: {radius: 1, times: 0}\n", ["1:23: p.times: expected a number >= 1, got 0"]),
        ("p: {radius: 1, times: 2.5}\n", ["1:23: p.times: expected a whole number, got 2.5"]),
        ("p: {radius: 1, times: [1, 0]}\n", ["1:27: p.times[1]: expected a number >= 1, got 0"]),
        ("p: {radius: []}\n", ["1:13: p.radius: expected at least one value in a sweep, got an empty list"]),
        ("p: {radius: [1, 1.0]}\n", ["1:13: p.radius: expected different values in a sweep, got one of them twice"]),
        ("p: {radius: 1, kinds: [1]}\n", ["1:24: p.kinds[0]: expected text, got 1"]),
        ("p: {radius: 1, kinds: x}\n", ["1:23: p.kinds: expected a list, got the text 'x'"]),
        ("p: {radius: 1, unit: lines}\n", ["1:22: p.unit: expected one of words or letters, got the text 'lines'"]),
    ],
)
def test_what_a_plugin_does_not_take(text, told):
    assert swept(text)[1] == told


THINKING = parameter("thinking", Union[bool, dict[Literal["budget", "tags"], Union[int, list[str]]], None], None)  # noqa: UP007 - as above


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p: {thinking: 3}\n", "1:15: p.thinking: expected true or false or a mapping, got 3"),
        ("p: {thinking: {budget: 1.5}}\n", "1:24: p.thinking.budget: expected a whole number or a list, got 1.5"),
        ("p: {thinking: {tags: [1]}}\n", "1:23: p.thinking.tags[0]: expected text, got 1"),
        ("p: {thinking: {buget: 3}}\n", "1:16: p.thinking.buget: unknown key 'buget', expected one of budget or tags"),
    ],
)
def test_of_several_types_the_one_that_was_meant_is_told(text, told):
    assert swept(text, [THINKING])[1] == [told]


def test_mappings_of_a_sweep_have_labels_of_their_own():
    pairs, problems = swept("p: {thinking: [{budget: 4}, {budget: 8}, {budget: 8, tags: [a, b]}, true]}\n", [THINKING])
    assert problems == [] and [label("m", point) for point, _ in pairs] == [
        "m@thinking=(budget=4)", "m@thinking=(budget=8)", "m@thinking=(budget=8,tags=['a', 'b'])", "m@thinking=true",
    ]  # fmt: skip
    assert label("m", {"nli": {"hf": {"artifact": "llm"}}}) == "m@nli=hf(artifact=llm)" and label("m", {"nli": {"hf": None}}) == "m@nli=hf"


def test_a_sweep_has_five_hundred_points_at_most():
    times = parameter("more", int, 1)
    pairs, problems = swept(f"p: {{radius: {[*range(1, 251)]}, more: [1, 2]}}\n", [PARAMETERS[0], times])
    assert len(pairs) == 500 and problems == []
    pairs, problems = swept(f"p: {{radius: {[*range(1, 168)]}, more: [1, 2, 3]}}\n", [PARAMETERS[0], times])
    assert pairs == [] and problems == ["1:4: p: expected a sweep of at most 500 points, got 501"]


NLI = parameter("nli", Annotated[Chosen, Kind("nli")], "lexical")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p: {nli: 3}\n", "1:10: p.nli: expected one plugin of nli, as `name` or `{name: {parameters}}`, got 3"),
        ("p: {nli: {lexical: 3}}\n", "1:10: p.nli: expected one plugin of nli, as `name` or `{name: {parameters}}`, got the parameters 3"),
        ("p: {nli: {a: {}, b: {}}}\n", "1:10: p.nli: expected one plugin of nli, as `name` or `{name: {parameters}}`, got "),
        ("p: {nli: none_such}\n", "1:10: p.nli: no nli plugin named 'none_such'"),
        ("p: {nli: {none_such: {}}}\n", "1:11: p.nli.none_such: no nli plugin named 'none_such'"),
        ("p: {nli: {lexical: {odd: 1}}}\n", "1:21: p.nli.lexical.odd: lexical has no parameter 'odd'"),
    ],
)
def test_a_plugin_within_a_plugin(text, told):
    _, problems = swept(text, [NLI])
    assert len(problems) == 1 and problems[0].startswith(told)


def test_a_plugin_within_a_plugin_has_all_its_parameters():
    plain, spelled = (swept(text, [NLI]) for text in ("p: {}\n", "p: {nli: {lexical: {}}}\n"))
    assert plain == spelled and plain[1] == [] and plain[0][0][1]["nli"]["plugin"] == "lexical"
    pairs, problems = swept("p: {nli: [lexical, {lexical: {}}]}\n", [NLI])
    assert len(pairs) == 2 and problems == ["1:10: p.nli: expected different values in a sweep, got one of them twice"]


@pytest.mark.parametrize(
    ("annotation", "taken"),
    [
        (list[str], True),
        (Annotated[list[int], Ge(1)], True),
        (or_none(list[str]), True),
        (str, False),
        (or_none(int), False),
        (dict[str, int], False),
    ],
)
def test_parameters_that_take_lists_are_not_swept(annotation, taken):
    assert takes_list(annotation) is taken
