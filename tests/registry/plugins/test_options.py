import pytest

from qualm.registry.plugins.options import parse_options
from qualm.registry.plugins.registry import PluginError, get


@pytest.mark.parametrize(
    ("adapter", "given", "value"),
    [
        ("image_table", "question=note", "note"),
        ("image_table", "choices=[a, b]", ["a", "b"]),
        ("image_table", "files={test: a.csv}", {"test": "a.csv"}),
        ("image_table", "id=null", None),
        ("image_table", "answer=no", "no"),
        ("image_table", "answer=2014", "2014"),
        ("image_table", "answer=a: [b", "a: [b"),
        ("vqav2", "parts=[train, val]", ["train", "val"]),
        ("gqa", "balanced=false", False),
        ("vlfeedback", "margin=1", 1.0),
    ],
)
def test_values_are_yaml(adapter: str, given: str, value: object) -> None:
    assert parse_options(get("datasets", adapter), [given]) == {given.partition("=")[0]: value}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("quest=x", r"-O quest=x: expected NAME=VALUE of image_table's parameters, which are: files \(dict"),
        ("question", "expected NAME=VALUE"),
        ("choices=a", "-O choices=a: expected list.*: Input should be a valid list"),
        ("answer_is=word", "expected Literal.*: Input should be 'text', 'letter'"),
        ("files=[", "expected dict"),
    ],
)
def test_what_is_none(given: str, said: str) -> None:
    with pytest.raises(PluginError, match=said):
        parse_options(get("datasets", "image_table"), [given])
