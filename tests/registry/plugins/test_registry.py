"""The one rule: plugins are found and read without being imported, ours and those of installed packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Gt, Lt

from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import KINDS, LIMITS, REQUIRED, Artifact, DatasetName, PluginError

ROOT = Path(__file__).parents[3]


def read(tmp_path: Path, source: str, name: str = "thing") -> registry.Plugin:
    path = tmp_path / f"{name}.py"
    path.write_text(source)
    return registry._read("metrics", name, path, f"x.{name}")


def test_a_signature_is_read_without_importing(tmp_path: Path) -> None:
    source = '''
import no_such_module
META = MetricMeta(higher_is_better=True)
NEEDS = ["a", "b"]
COMPUTED = len("not a literal")
def helper(): ...
def thing(confidence, correct, weights, *, bins: int = 15, rate: Annotated[float, Gt(0), Lt(1)], how: Literal["x", "y"] = "x",
          names: list[str] | None = None, source: Artifact, sets: list[DatasetName] = [], extra: dict[str, float] = {}) -> float:
    """First line.

    More."""
    raise RuntimeError("never called")
'''
    found = read(tmp_path, source)
    assert found.reads == ("confidence", "correct", "weights")
    assert found.declares == {"higher_is_better": True, "NEEDS": ["a", "b"]}
    assert found.summary == "First line."
    annotations: dict[str, Any] = {p.name: p.annotation for p in found.parameters}
    assert annotations == {
        "bins": Annotated[int, *LIMITS],
        "rate": Annotated[float, Gt(0), Lt(1)],
        "how": Literal["x", "y"],
        "names": list[str] | None,
        "source": Artifact,
        "sets": list[DatasetName],
        "extra": dict[str, Annotated[float, *LIMITS]],
    }
    assert {p.name: p.default for p in found.parameters}["rate"] is REQUIRED


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def other(): ...", "expected a function named 'thing', found other"),
        ("def thing(*, x=1): ...", "parameter 'x' of thing: has no annotation"),
        ("def thing(*, x: np.ndarray): ...", "annotation 'np.ndarray' is not one a spec can hold"),
        ("def thing(*, x: int = f()): ...", "must be written out as a literal"),
        ("def thing(*, x: int | float = 1): ...", "mixes bool, int and float, between which DVC sees no change"),
        ("def thing(*, size: int = 1): ...", "DVC's run cache ignores changes of a parameter with this name"),
        ("def thing(*, x: Annotated[int, Foo(1)] = 1): ...", "is not one a spec can hold ('Foo(1)' is unknown); use"),
        ("def thing(*, x: list[int, str]): ...", "is not one a spec can hold"),
        ("def thing(*, x: dict[str]): ...", "is not one a spec can hold"),
        ("def thing(*, x: Literal[[1]]): ...", "is not one a spec can hold (unhashable type: 'list')"),
        ("def thing(*, x: int[str]): ...", "is not one a spec can hold"),
        ("def thing(*, x: 'int'): ...", "is not one a spec can hold"),
        ("def thing(*, x: Literal[open('x')]): ...", "is not one a spec can hold"),
        ('def thing(*, x: Annotated[Chosen, Kind("things")]): ...', "no plugin kind 'things'; there are: datasets"),
        ("def thing(*, x: int" + " | int" * 2000 + "): ...", "annotation is nested too deeply"),
        ("def thing(:", "cannot be read as Python"),
    ],
)
def test_a_plugin_that_breaks_the_rule_says_how(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(PluginError) as caught:
        read(tmp_path, source)
    assert message in str(caught.value)
    assert "thing.py" in str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("Annotated[int, Ge(1)]", "1", "0"),
        ("Annotated[int, Gt(1)]", "2", "1"),
        ("Annotated[float, Le(0.5)]", "0.5", "0.6"),
        ("Annotated[float, Lt(0.5)]", "0.4", "0.5"),
        ("Annotated[int, Ge(0), Lt(2)]", "1", "2"),
        ("Annotated[list[int], MinLen(2)]", "[1, 2]", "[1]"),
        ("Annotated[list[int], MaxLen(2)]", "[1, 2]", "[1, 2, 3]"),
        ("Annotated[int, MultipleOf(4)]", "8", "6"),
        ("Annotated[list[Annotated[int, Ge(1)]], MinLen(1)]", "[1, 2]", "[1, 0]"),
        ("Literal[1, 'a']", "1", "'1'"),
        ("dict[str, int]", "{'a': 1}", "{'a': 'b'}"),
        ("dict[str, int]", "{}", "{1: 1}"),
        ("list[str]", "[]", "('a',)"),
        ("float", "1", "True"),
        ("int", "1", "1.0"),
        ("str | None", "None", "0"),
        ("Artifact", "'a'", "1"),
        ('Annotated[Chosen, Kind("metrics")]', "{'ece': {}}", "['ece']"),
    ],
)
def test_a_default_is_what_its_annotation_says(tmp_path: Path, annotation: str, good: str, bad: str) -> None:
    (parameter,) = read(tmp_path, f"def thing(*, x: {annotation} = {good}): ...").parameters
    assert repr(parameter.default) == good
    (tmp_path / "other").mkdir()
    with pytest.raises(PluginError, match=r"parameter 'x' of thing: expected a default of type"):
        read(tmp_path / "other", f"def thing(*, x: {annotation} = {bad}): ...")


def test_unknown_names_are_met_with_the_nearest() -> None:
    with pytest.raises(PluginError, match="no metrics plugin named 'acuracy'; did you mean 'accuracy'"):
        registry.get("metrics", "acuracy")
    with pytest.raises(PluginError, match="no plugin kind 'metric'"):
        registry.names("metric")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_in_the_docs(kind: str) -> None:
    page = (ROOT / "docs/how-to/plugins.md").read_text()
    assert f"| `{kind}` | " in page and f"`{KINDS[kind]}/`" in page


@pytest.mark.parametrize("kind", KINDS)
def test_every_plugin_of_ours_keeps_the_rule_and_has_help(kind: str) -> None:
    for name in registry.names(kind):
        found = registry.get(kind, name)
        assert found.summary, f"{found.path}: no docstring"


@pytest.mark.parametrize("kind", KINDS)
def test_every_plugin_of_ours_loads_and_its_source_says_what_python_says(kind: str) -> None:
    import inspect

    for name in registry.names(kind):
        function = registry.load(kind, name)
        signature = inspect.signature(function).parameters.values()
        keywords = {p.name: p.default for p in signature if p.kind is p.KEYWORD_ONLY}
        found = {p.name: inspect.Parameter.empty if p.default is REQUIRED else p.default for p in registry.get(kind, name).parameters}
        assert found == keywords


def test_importing_plugins_imports_no_library_that_takes_seconds() -> None:
    script = (
        "import importlib, sys; from qualm.registry.plugins import registry\n"
        "modules = [module for kind in registry.KINDS for _, module in registry.files(kind).values()]\n"
        "for module in modules: importlib.import_module(module)\n"
        "print(len(modules) > 200, sorted({'torch', 'transformers', 'lightning', 'cv2', 'gradio'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"


def test_an_installed_package_adds_a_plugin_by_entry_point(tmp_path: Path) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported too early')\n")
    (package / "spherical.py").write_text(
        'def spherical(confidence, correct, weights, *, form: str = "plain") -> float:\n    """Mean squared error."""\n'
    )
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[qualm.metrics]\nspherical = my_package.spherical\n")
    script = (
        "from qualm.registry.plugins.registry import get; p = get('metrics', 'spherical')\nprint(p.summary, [x.name for x in p.parameters])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={"PYTHONPATH": f"{ROOT}:{tmp_path}"}, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "Mean squared error. ['form']", done.stderr


GIVING = """
GIVES = ["text", {"token_logprobs": "k"}, {"token_entropies": ["k", "truncated"], "draws": []}]
def thing(*, k: int = 0, truncated: bool = False) -> None:
    '''Help.'''
"""


def test_what_a_model_gives_depends_on_its_arguments(tmp_path: Path) -> None:
    found = read(tmp_path, GIVING)
    assert registry.gives(found, {}) == {"text", "draws"}
    assert registry.gives(found, {"k": 0, "truncated": True}) == {"text", "draws"}
    assert registry.gives(found, {"k": 5}) == {"text", "draws", "token_logprobs"}
    assert registry.gives(found, {"k": 5, "truncated": True}) == registry.could_give(found)
    assert registry.would_give(found, {}, ["token_logprobs", "token_entropies"]) == ("k", "truncated")
    assert registry.would_give(found, {"k": 1}, ["token_entropies"]) == ("truncated",)
    assert registry.would_give(found, {}, ["token_logprobs", "p_true"]) is None


def test_what_a_model_gives_by_one_argument(tmp_path: Path) -> None:
    found = read(tmp_path, 'GIVES = {"how": {"a": ["text"], "b": ["text", "draws"]}}\ndef other(*, how: str = "a"): ...\n', "other")
    assert (registry.gives(found, {}), registry.gives(found, {"how": "b"})) == ({"text"}, {"text", "draws"})
    assert registry.could_give(found) == {"text", "draws"}
    with pytest.raises(PluginError, match="GIVES: expected one parameter and what each of its values gives"):
        registry.gives(found, {"how": "c"})
    two = read(tmp_path, 'GIVES = {"how": {"a": []}, "k": {1: []}}\ndef two(*, how: str = "a", k: int = 1): ...\n', "two")
    with pytest.raises(PluginError, match="GIVES: expected one parameter"):
        registry.gives(two, {})


def test_keys_of_meta_that_samples_may_have(tmp_path: Path) -> None:
    source = 'META = ["turn", {"of": "keys"}]\ndef thing(*, keys: list[str] | None = None): ...\n'
    found = read(tmp_path, source)
    assert registry.meta_keys(found, {"keys": ["a", "b"]}) == ("turn", "a", "b") and registry.meta_keys(found, {"keys": []}) == ("turn",)
    assert (
        registry.meta_keys(found, {}) is registry.meta_keys(found, {"keys": ["a", 1]}) is registry.meta_keys(found, {"keys": "ab"}) is None
    )
    silent = read(tmp_path, "def silent(*, keys: list[str] = []): ...\n", "silent")
    assert registry.meta_keys(silent, {}) is None


def test_a_plugin_that_another_parameter_names() -> None:
    loaded = registry.load_chosen("metrics", {"plugin": "ece", "args": {"bins": 7}})
    assert (getattr(loaded, "func", None), getattr(loaded, "keywords", None)) == (registry.load("metrics", "ece"), {"bins": 7})
    assert registry.load_chosen("metrics", "ece") is registry.load("metrics", "ece")
    for odd in ({"plugin": "ece"}, {"plugin": "ece", "args": {}, "more": 1}):
        with pytest.raises(PluginError, match=r"expected a name or \{'plugin': \.\.\., 'args': \.\.\.\} of metrics, got "):
            registry.load_chosen("metrics", odd)


def test_a_condition_that_is_no_parameter(tmp_path: Path) -> None:
    found = read(tmp_path, GIVING.replace('"k", "truncated"]', '"k", "cut"]'))
    with pytest.raises(PluginError, match="token_entropies depends on 'cut'; expected one of its parameters: k, truncated"):
        registry.gives(found, {})
