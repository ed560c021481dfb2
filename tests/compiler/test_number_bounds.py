"""Every number that a user can give has a lower and an upper bound, declared where it is declared itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from typer.main import get_command
from typer.models import OptionInfo

from qualm.compiler.commands.main import complete_app
from qualm.compiler.spec.json_schema import schema
from qualm.compiler.spec.language import About, RunWide, Spec
from qualm.compiler.spec.plugin_ref import OWN
from qualm.registry.entries.card import Card
from qualm.registry.plugins import registry
from qualm.runners.runtime.server_config import Price, Server
from qualm.runners.runtime.settings import VLLM, Settings
from tests.compiler.spec.resolving import GOOD, problems

IMPOSSIBLE = (math.nan, math.inf, -math.inf, 1e308, -1e308, 10**30, -(10**30))
STRICT = ConfigDict(strict=True)


def numbers(annotation: Any, bounds: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield the type of each number in an annotation, with all that bounds it."""
    if get_origin(annotation) is Annotated:
        inner, *own = get_args(annotation)
        stated = [bound for one in own for bound in (one.metadata if isinstance(one, FieldInfo) else [one])]
        yield from numbers(inner, (*bounds, *stated))
    elif annotation in (int, float):
        ends = [bound for bound in bounds if isinstance(bound, Ge | Gt | Le | Lt)]
        yield Annotated[(annotation, *ends)] if ends else annotation
    elif get_origin(annotation) is not Literal:
        for inner in get_args(annotation):
            yield from numbers(inner, bounds)


def of_model(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    """Yield each number of a Pydantic model and of the models in it."""
    for name, field in model.model_fields.items():
        for number in numbers(field.annotation, tuple(field.metadata)):
            yield f"{model.__name__}.{name}", number
        for inner in models_in(field.annotation):
            yield from of_model(inner)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def of_settings() -> Iterator[tuple[str, Any]]:
    declared = {f"{kind.__name__}.{f.name}": f.type for kind in (Settings, Server, Price) for f in fields(kind)}
    for name, annotation in {**declared, **{f"vllm.{name}": annotation for name, annotation in VLLM.items()}}.items():
        for number in numbers(annotation):
            yield name, number


def of_plugins() -> Iterator[tuple[str, Any]]:
    for kind in registry.KINDS:
        own = [(f"{kind}.*.{p.name}", p) for p in OWN.get(kind, ())]
        for name, parameter in own + [(f"{kind}.{plugin.name}.{p.name}", p) for plugin in registry.every(kind) for p in plugin.parameters]:
            for number in numbers(parameter.annotation):
                yield name, number


def options() -> Iterator[tuple[list[str], str, OptionInfo]]:
    """Yield each option of a command that takes a number: the command, the option's name, and its declaration."""
    app = complete_app()
    groups = [([], app), *(([group.name], group.typer_instance) for group in app.registered_groups)]
    for path, group in groups:
        for command in group.registered_commands:
            function = command.callback
            name = command.name or function.__name__.rstrip("_").replace("_", "-")
            for annotation in get_type_hints(function, include_extras=True).values():
                info = next((m for m in getattr(annotation, "__metadata__", ()) if isinstance(m, OptionInfo)), None)
                if info is not None and any(numbers(get_args(annotation)[0])):
                    names = (info.default, *info.param_decls)  # in Annotated, Typer keeps the first name as the default
                    yield [*path, name], max(names, key=len), info


@cache
def qualm() -> Callable[[list[str]], Any]:
    """Return the command line, which Typer makes from our functions in a third of a second."""
    return get_command(complete_app())


SPECS = [*of_model(Spec), *of_model(About), *of_model(RunWide), *of_model(Card)]
ALL = [*SPECS, *of_settings(), *of_plugins()]


def test_the_numbers_are_found() -> None:
    found = {name for name, _ in ALL}
    assert len(ALL) > 200
    assert found >= {"Interval.bootstrap", "Inference.temperature", "RunWide.seed", "Address.bytes", "Settings.max_spend", "Price.input"}
    assert found >= {
        "Server.timeout",
        "vllm.limit_mm_per_prompt",
        "metrics.ece.bins",
        "models.openai.thinking",
        "perturbations.amb.retries",
    }


@pytest.mark.parametrize(("name", "number"), ALL, ids=[name for name, _ in ALL])
def test_a_number_has_both_bounds_and_is_finite(name: str, number: Any) -> None:
    bounds = getattr(number, "__metadata__", ())
    assert any(isinstance(b, Ge | Gt) for b in bounds) and any(isinstance(b, Le | Lt) for b in bounds)
    for value in IMPOSSIBLE:
        assert not registry.fits(number, value)
        with pytest.raises(ValidationError):
            TypeAdapter(number, config=STRICT).validate_python(value)


@pytest.mark.parametrize(("command", "option", "info"), options(), ids=lambda value: str(value) if isinstance(value, list | str) else "")
def test_an_option_has_both_bounds_and_is_finite(
    command: list[str], option: str, info: OptionInfo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert info.min is not None and info.max is not None
    for value in (math.nan, math.inf, 10**30, -(10**30)):
        with pytest.raises(SystemExit) as ended:
            qualm()([*command, f"{option}={value}"])
        assert ended.value.code == 2 and option in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "compare: {interval: {bootstrap: 9007199254740993}}",
            "compare.interval.bootstrap: expected a number <= 10000000, got 9007199254740993",
        ),
        ("inference: {temperature: 1.0e+308}", "inference.temperature: expected a number <= 100.0, got 1e+308"),
        ("inference: {temperature: 1.0e+309}", "inference.temperature: expected a number <= 100.0, got inf"),
        ("inference: {temperature: .nan}", "expected a finite decimal number, got .nan"),
        ("seed: 9007199254740993", "seed: expected a number <= 9007199254740991, got 9007199254740993"),
        ("metrics: [ece: {bins: 9007199254740993}]", "metrics[0].ece.bins: expected a number <= 10000000, got 9007199254740993"),
    ],
)
def test_a_number_of_a_spec_that_is_out_of_bounds(tmp_path: Path, value: str, expected: str) -> None:
    assert any(expected in problem for problem in problems(tmp_path, GOOD.partition("metrics:")[0] + value))


def test_editors_know_the_bounds() -> None:
    bootstrap = schema()["$defs"]["Interval"]["properties"]["bootstrap"]
    assert (bootstrap["minimum"], bootstrap["maximum"]) == (0, 10_000_000)
