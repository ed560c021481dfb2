"""A plugin as a parameter of another: checked where it stands, spelled out, depended on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Union

import pytest

from qualm.compiler.spec import validate
from qualm.compiler.spec.json_schema import _value
from qualm.compiler.spec.plugin_ref import Ref, located
from qualm.compiler.spec.references_in import chosen_kind, names_in, nested_uses, takes_none
from qualm.compiler.spec.yaml_positions import parse
from qualm.registry.parameters import to_lists, to_mappings
from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import Artifact, Chosen, DatasetName, Kind, PluginError, load_chosen
from tests.support.checks.plugin_files import AddPlugin, made_up

OUTER = '''
from typing import Annotated
from qualm.registry.plugins.registry import Chosen, Kind
def outer(context, *, writer: Annotated[Chosen, Kind("generators")] = "plain",
          second: Annotated[Chosen, Kind("generators")] | None = None,
          many: list[Annotated[Chosen, Kind("generators")]] = [], times: int = 1):
    """Uses a writer."""
'''
PLAIN = '''
def plain(context, *, tone: str = "dry", words: list[str] = []):
    """Writes."""
    return f"{context}: {tone}"
'''
MODEL = '''
from qualm.registry.plugins.registry import Artifact, Chosen, DatasetName, Kind
def model(context, *, artifact: Artifact, examples: DatasetName | None = None, temperature: float = 1, dtype: str = "float32",
          helper: Annotated[Chosen, Kind("generators")] = "plain"):
    """Writes by a model."""
'''


@pytest.fixture(autouse=True)
def made(tmp_path: Path) -> Iterator[AddPlugin]:
    with made_up(tmp_path) as add:
        add("pairs", "outer", OUTER)
        add("generators", "plain", PLAIN)
        add("generators", "model", MODEL)
        yield add


def combine(text: str) -> tuple[list[tuple[dict, dict]], list[str]]:
    document = parse(text, "t.yaml")
    problems: list = []
    plugin = registry.get("pairs", "outer")
    found = validate.combinations(plugin.parameters, document.data or {}, document, (), problems, "outer", {"dtype": "bfloat16"})
    return found, [str(p) for p in problems]


PLAIN_ARGS = {"plugin": "plain", "args": {"tone": "dry", "words": []}}
MODEL_ARGS = {
    "plugin": "model",
    "args": {"artifact": "llm", "examples": None, "temperature": 1.0, "dtype": "bfloat16", "helper": PLAIN_ARGS},
}


def test_a_name_and_a_default_get_all_their_parameters() -> None:
    ((swept, args),), problems = combine("{times: 2}")
    assert not problems
    assert swept == {}
    assert args == {"writer": PLAIN_ARGS, "second": None, "many": [], "times": 2}
    assert combine("{times: 2, writer: plain}")[0] == combine("{times: 2, writer: {plain: }}")[0] == [(swept, args)]


def test_parameters_of_a_nested_plugin_fall_back_to_params_yaml_and_nest_further() -> None:
    ((_, args),), problems = combine("{writer: {model: {artifact: llm}}, many: [plain, {model: {artifact: llm}}]}")
    assert not problems
    assert args["writer"] == MODEL_ARGS
    assert args["many"] == [PLAIN_ARGS, MODEL_ARGS]


def test_a_list_of_nested_plugins_is_a_sweep_with_short_labels() -> None:
    found, problems = combine("{writer: [plain, {plain: {tone: warm}}, {model: {artifact: llm, temperature: 0.5}}]}")
    assert not problems
    labels = [validate.label("outer", swept) for swept, _ in found]
    assert labels == ["outer@writer=plain", "outer@writer=plain(tone=warm)", "outer@writer=model(artifact=llm,temperature=0.5)"]
    assert [args["writer"]["args"].get("tone") for _, args in found] == ["dry", "warm", None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("writer: palin", "t.yaml:1:9: writer: no generators plugin named 'palin'; did you mean 'plain'?"),
        ("writer: {palin: {tone: x}}", "t.yaml:1:10: writer.palin: no generators plugin named 'palin'; did you mean 'plain'?"),
        (
            "writer: {plain: {tnoe: x}}",
            "t.yaml:1:18: writer.plain.tnoe: plain has no parameter 'tnoe' (did you mean 'tone'?)",
        ),
        ("writer: {plain: {tone: 3}}", "t.yaml:1:24: writer.plain.tone: expected text, got 3 (text in quotes, as in '3' or 'no')"),
        (
            "writer: {plain: {tone: [a, b]}}",
            "t.yaml:1:24: writer.plain.tone: expected one value, got a list ['a', 'b'] "
            "(a sweep goes over whole values of generators, not within one)",
        ),
        ("writer: {model: {}}", "t.yaml:1:17: writer.model: model needs the parameter 'artifact' (Artifact) (`artifact: ...`)"),
        (
            "writer: {model: {artifact: llm, helper: {plain: {tone: 1}}}}",
            "t.yaml:1:56: writer.model.helper.plain.tone: expected text, got 1 (text in quotes, as in '3' or 'no')",
        ),
        (
            "writer: {plain: 3}",
            "t.yaml:1:9: writer: expected one plugin of generators, as `name` or `{name: {parameters}}`, got the parameters 3",
        ),
        ("writer: 3", "t.yaml:1:9: writer: expected one plugin of generators, as `name` or `{name: {parameters}}`, got 3"),
        ("writer: ", "t.yaml:1:8: writer: expected one plugin of generators, as `name` or `{name: {parameters}}`, got nothing"),
        (
            "many: [{plain: , model: }]",
            "t.yaml:1:8: many[0]: expected one plugin of generators, as `name` or `{name: {parameters}}`, "
            "got a mapping {'plain': None, 'model': None}",
        ),
    ],
)
def test_a_mistake_is_shown_where_it_stands(text: str, expected: str) -> None:
    assert combine(text)[1] == [expected]


def test_everything_within_is_depended_on() -> None:
    ((_, args),), _ = combine("{writer: {model: {artifact: llm, examples: scenes}}, many: [{model: {artifact: other}}]}")
    outer = registry.get("pairs", "outer")
    assert names_in(outer, args, Artifact) == ["llm", "other"]
    assert names_in(outer, args, DatasetName) == ["scenes"]
    assert [p.name for p, _ in nested_uses(outer, args)] == ["model", "plain", "model", "plain"]
    ref = Ref("outer", outer, located(outer, args))
    assert ref.artifacts == ("registry/data/llm", "registry/data/other")
    assert ref.args["writer"]["args"]["artifact"] == "registry/data/llm"
    assert [p.name for p in ref.plugins] == ["outer", "model", "plain", "model", "plain"]
    assert args["writer"]["args"]["artifact"] == "llm"


def test_what_a_stage_file_holds_comes_back_and_becomes_a_function() -> None:
    ((_, args),), _ = combine("{writer: {plain: {tone: warm}}}")
    params = {"label": "outer", "plugin": "outer", "args": args}
    assert to_lists(to_mappings(params)) == params
    assert load_chosen("generators", args["writer"])("said") == "said: warm"
    assert load_chosen("generators", "plain")("said") == "said: dry"
    with pytest.raises(PluginError) as caught:
        load_chosen("generators", {"plain": {}})
    assert str(caught.value) == "expected a name or {'plugin': ..., 'args': ...} of generators, got {'plain': {}}"


def test_only_a_kind_that_exists_can_be_chosen(made: AddPlugin) -> None:
    path = made("pairs", "wrong", 'def wrong(*, x: Annotated[Chosen, Kind("writers")] = "plain"): ...\n')
    with pytest.raises(PluginError) as caught:
        registry.get("pairs", "wrong")
    assert str(caught.value).startswith(f"{path}:1: parameter 'x' of wrong: annotation 'Annotated[Chosen, Kind")
    assert "is not one a spec can hold (no plugin kind 'writers'; there are: datasets, " in str(caught.value)
    made("pairs", "bare", 'def bare(*, x: Chosen = "plain"): ...\n')
    with pytest.raises(PluginError, match="annotation 'Chosen' is not one a spec can hold"):
        registry.get("pairs", "bare")


def test_the_kind_is_read_from_the_annotation_and_shown_to_people() -> None:
    assert chosen_kind(Annotated[Chosen, Kind("masks")]) == chosen_kind(Annotated[Chosen, Kind("masks")] | None) == "masks"
    assert chosen_kind(Annotated[int, 3]) is chosen_kind(str) is None
    texts = {p.name: p.text for p in registry.get("pairs", "outer").parameters}
    assert texts["second"] == "plugin of generators | None"
    schema = _value(registry.get("pairs", "outer").parameters[1].annotation)
    assert {"model", "plain"} <= {s.get("const") for s in schema["anyOf"]}
    assert schema["anyOf"][-2:] == [{"$ref": "#/$defs/generators_plugins"}, {"type": "null"}]


def test_the_kind_of_an_annotation_that_is_no_key() -> None:
    assert chosen_kind(Annotated[Chosen, {"unit": "s"}, Kind("nli")]) == "nli"
    assert chosen_kind(Annotated[float, {"unit": "s"}]) is None


@pytest.mark.parametrize(
    ("annotation", "nothing"),
    [
        (None, True),
        (type(None), True),
        (Union[int, None], True),  # noqa: UP007 - as a plugin's source is read
        (Union[int, str], False),  # noqa: UP007
        (int, False),
        (list[None], False),
        (dict[str, None], False),
    ],
)
def test_parameters_of_which_nothing_is_a_value(annotation: object, nothing: bool) -> None:
    assert takes_none(annotation) is nothing
