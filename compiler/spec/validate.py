"""Validate values; convert Pydantic's errors to problems with positions, in our wording."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from qualm.compiler.spec.errors import Problem, nearest, quoted
from qualm.compiler.spec.language import whole
from qualm.compiler.spec.plugin_ref import prompts_folder
from qualm.compiler.spec.references_in import chosen_kind, names_of, takes_none
from qualm.compiler.spec.yaml_positions import Document, Path_
from qualm.registry.entries.paper_prompts import how_to_fill
from qualm.registry.plugins import foreign_names
from qualm.registry.plugins.registry import NAME_PATTERN, NAME_RULE, PROMPTS, REQUIRED, Parameter, PluginError, PromptFile
from qualm.registry.plugins.validation import validator
from qualm.registry.text import count

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "nothing",
    "string_pattern_mismatch": f"a name of {NAME_RULE}",
}
MAX_POINTS = 500
"""Maximum points of a sweep and entries of a section; more takes minutes to plan."""
M = TypeVar("M", bound=BaseModel)
_BOUND = {"greater_than": ("gt", ">"), "greater_than_equal": ("ge", ">="), "less_than": ("lt", "<"), "less_than_equal": ("le", "<=")}


def model(kind: type[M], document: Document, problems: list[Problem]) -> M | None:
    """Return the document's data as a `kind`; None if invalid, with problems appended."""
    try:
        return kind.model_validate(document.data)
    except ValidationError as error:
        places: set[Path_] = set()
        for detail in error.errors(include_url=False):
            loc = _document_path(detail, document.data)
            if loc in places and detail["type"] != "missing":
                continue  # another branch of the same union
            places.add(loc)
            problems.append(_problem(detail, loc, document, kind))
        return None


def sound_part(kind: type[M], document: Document, problems: list[Problem], needed: Mapping[str, Any]) -> tuple[M | None, Document]:
    """Return (model or None, document) without invalid values; append their problems.

    Args:
        needed: values for required keys that are missing or wrong.

    Returns:
        The document without wrong values, as a model and as it is; None if nothing can be validated.
    """
    if not isinstance(document.data, dict):
        return model(kind, document, problems), document
    if document.open:
        document.data = {**needed, **document.data}
    try:
        return kind.model_validate(document.data), document
    except ValidationError:
        model(kind, document, problems)
    for _ in range(_ROUNDS):  # leaving a value out may make its parent invalid
        for key in needed.keys() - document.data.keys():
            document.data = {**document.data, key: needed[key]}
        try:
            return kind.model_validate(document.data), document
        except ValidationError as error:
            wrong = {_path_to_drop(detail, _document_path(detail, document.data)) for detail in error.errors(include_url=False)}
            if () in wrong:
                return None, document
            document = document.without(wrong)
    return None, document


_ROUNDS = 10


def _path_to_drop(detail: Any, loc: Path_) -> Path_:
    """Return the path to drop for a Pydantic error: the value's, or a missing key's parent."""
    return loc[:-1] if detail["type"] == "missing" else loc


def _document_path(detail: Any, data: Any) -> Path_:
    """Return the document path of Pydantic's error location, without union branches."""
    real: list[int | str] = []
    loc = detail["loc"]
    for part in loc:
        inside_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if inside_list or (isinstance(data, Mapping) and part in data):
            data = data[part]
        elif isinstance(data, Mapping) and part == loc[-1] and detail["type"] == "missing":
            data = None
        else:
            continue
        real.append(part)
    return tuple(real)


def _problem(detail: Any, loc: Path_, document: Document, root: type[BaseModel]) -> Problem:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        keys = _fields(root, loc[:-1])
        return document.problem(loc, f"unknown key '{loc[-1]}'", nearest(str(loc[-1]), keys), key=True)
    if kind == "missing":
        return document.problem(loc, f"expected the key '{loc[-1]}', found none", "add it")
    return document.problem(loc, f"expected {_expected(detail)}, got {quoted(value)}", _in_quotes(detail))


def _in_quotes(detail: Any) -> str:
    """Return a hint to quote the value if a number or boolean stands for a text; else ""."""
    return "text in quotes, as in '3' or 'no'" if detail["type"] == "string_type" and isinstance(detail["input"], int | float) else ""


def _expected(detail: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "literal_error":
        return "one of " + str(context["expected"]).replace("'", "") if " or " in context["expected"] else str(context["expected"])
    if kind in _BOUND:
        key, sign = _BOUND[kind]
        return f"a number {sign} {context[key]}"
    if kind in ("too_short", "too_long"):
        bound, n = ("at least", context["min_length"]) if kind == "too_short" else ("at most", context["max_length"])
        return f"{bound} {count(n, 'entry', 'entries')}"
    return _EXPECTED.get(kind) or str(detail["msg"]).removeprefix("Input should be ")


def _fields(kind: type[BaseModel], path: Path_) -> list[str]:
    """Return the keys that a model allows at a path; [] if it allows none."""
    current: Any = kind
    for part in path:
        fields = current.model_fields if _is_model(current) else {}
        inner = fields[str(part)].annotation if str(part) in fields else (get_args(current) or (None,))[-1]
        current = next(filter(_is_model, get_args(inner)), inner) if get_origin(inner) in (Union, UnionType) else inner
    return list(current.model_fields) if _is_model(current) else []


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def is_name(text: str) -> bool:
    return re.fullmatch(NAME_PATTERN, text) is not None


def _prompt_fault(name: str) -> str:
    """Return what was expected instead of an absent prompt's name; "" if it exists."""
    folder = prompts_folder()
    if (folder / f"{name}.md").is_file():
        return ""
    there = ", ".join(sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.md")))
    way = how_to_fill(name)
    return f"a file {PROMPTS}/{name}.md: {way}" if way else f"the name of a file {PROMPTS}/NAME.md (there are: {there})"


def takes_list(annotation: Any) -> bool:
    """Return whether a list is one value of this parameter, not a sweep."""
    if get_origin(annotation) is Annotated:
        return takes_list(get_args(annotation)[0])
    if get_origin(annotation) is Union:
        return any(takes_list(a) for a in get_args(annotation))
    return get_origin(annotation) is list


def value(
    annotation: Any, raw: Any, document: Document, path: Path_, problems: list[Problem], fallbacks: Mapping[str, Any] | None = None
) -> Any:
    """Return a parameter's valid value in canonical form; None with problems appended.

    Numbers become int or float as declared. A nested plugin becomes `{"plugin": name, "args": {every parameter}}`.

    Args:
        fallbacks: defaults of params.yaml, which replace those of nested plugins.
    """
    kind = chosen_kind(annotation)
    if kind is not None and not (raw is None and takes_none(annotation)):
        return _chosen(kind, raw, document, path, problems, fallbacks or {})
    if get_origin(annotation) is list and isinstance(raw, list) and chosen_kind(get_args(annotation)[0]):
        return [value(get_args(annotation)[0], item, document, (*path, i), problems, fallbacks) for i, item in enumerate(raw)]
    try:
        validated = validator(annotation).validate_python(_whole_numbers(annotation, raw))
    except ValidationError as error:
        by_place: dict[Path_, list[Any]] = {}
        for detail in error.errors(include_url=False):
            by_place.setdefault(_document_path(detail, raw), []).append(detail)
        for place, details in by_place.items():
            if any(other[: len(place)] == place != other for other in by_place):
                continue  # an error of another branch of the union
            if wrong_keys := [d for d in details if d["loc"][-1:] == ("[key]",)]:
                keys = " or ".join(dict.fromkeys(_expected(d) for d in wrong_keys))
                problems.append(document.problem((*path, *place), f"unknown key '{place[-1]}', expected {keys}", key=True))
                continue
            expected = list(dict.fromkeys(_expected(d) for d in details))
            message = f"expected {' or '.join(expected)}, got {quoted(details[0]['input'])}"
            problems.append(document.problem((*path, *place), message, next(filter(None, map(_in_quotes, details)), "")))
        return None
    for name in names_of(annotation, validated, PromptFile):
        if fault := _prompt_fault(name):
            problems.append(document.problem(path, f"expected {fault}, got {quoted(name)}"))
    return validated


def _chosen(
    kind: str, raw: Any, document: Document, path: Path_, problems: list[Problem], fallbacks: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return {"plugin": name, "args": all arguments} of `raw`; None with problems appended."""
    named = isinstance(raw, Mapping) and len(raw) == 1
    name, params = next(iter(raw.items())) if named else (raw, None)
    if not isinstance(name, str) or not (params is None or isinstance(params, Mapping)):
        got = f"the parameters {quoted(params)}" if named else quoted(raw)
        problems.append(document.problem(path, f"expected one plugin of {kind}, as `name` or `{{name: {{parameters}}}}`, got {got}"))
        return None
    place = (*path, name) if named else path
    try:
        plugin = foreign_names.get(kind, name)
    except PluginError as error:
        problems.append(document.problem(place, str(error), key=named))
        return None
    annotations = {p.name: p.annotation for p in plugin.parameters}
    before, swept = len(problems), set[str]()
    for each, inner in (params or {}).items():
        if isinstance(inner, list) and each in annotations and not takes_list(annotations[each]):
            message = f"expected one value, got {quoted(inner)}"
            problems.append(document.problem((*place, each), message, f"a sweep goes over whole values of {kind}, not within one"))
            swept.add(each)
    single_values = {each: inner for each, inner in (params or {}).items() if each not in swept}
    fixed = [p for p in plugin.parameters if p.name not in swept]
    points = combinations(fixed, single_values, document, place, problems, plugin.name, fallbacks)
    return {"plugin": name, "args": points[0][1]} if points and len(problems) == before else None


def _whole_numbers(annotation: Any, raw: Any) -> Any:
    kinds = _leaf_types(annotation)
    if int in kinds and float not in kinds:
        if isinstance(raw, list):
            return [whole(v) for v in raw]
        return whole(raw)
    return raw


def _leaf_types(annotation: Any) -> set[Any]:
    if get_origin(annotation) is Literal:
        return {type(v) for v in get_args(annotation)}
    inner = get_args(annotation)
    return set().union(*(_leaf_types(a) for a in inner if not isinstance(a, str | int | float))) if inner else {annotation}


def combinations(
    parameters: Sequence[Parameter],
    raw: Mapping[str, Any],
    document: Document,
    path: Path_,
    problems: list[Problem],
    owner: str,
    fallbacks: Mapping[str, Any] | None = None,
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return (swept values, all arguments) per point; append problems; [] above MAX_POINTS.

    Args:
        raw: {parameter: value, or list of values of a sweep} as written.
        owner: name of the plugin or section, for messages.
        fallbacks: defaults of params.yaml, which replace those of the plugin.
    """
    raw = {**{name: fallback for name, fallback in (fallbacks or {}).items() if name in {p.name for p in parameters}}, **raw}
    by_name = {p.name: p for p in parameters}
    for name in raw:
        if name not in by_name:
            problems.append(document.problem((*path, name), f"{owner} has no parameter '{name}'", nearest(name, by_name), key=True))
    axes: dict[str, list[Any]] = {}
    fixed: dict[str, Any] = {}
    for name, parameter in by_name.items():
        if name not in raw:
            if parameter.default is REQUIRED:
                problems.append(document.problem(path, f"{owner} needs the parameter '{name}' ({parameter.text})", f"`{name}: ...`"))
            else:
                fixed[name] = _default(parameter, document, path, problems, fallbacks)
        elif isinstance(raw[name], list) and not takes_list(parameter.annotation):
            if not raw[name]:
                problems.append(document.problem((*path, name), "expected at least one value in a sweep, got an empty list"))
            places = [(*path, name, i) for i in range(len(raw[name]))]
            axes[name] = [
                value(parameter.annotation, v, document, at, problems, fallbacks) for v, at in zip(raw[name], places, strict=True)
            ]
            if len({repr(v) for v in axes[name]}) < len(axes[name]):
                problems.append(document.problem((*path, name), "expected different values in a sweep, got one of them twice"))
        else:
            fixed[name] = value(parameter.annotation, raw[name], document, (*path, name), problems, fallbacks)
    points = math.prod(map(len, axes.values()))
    if points > MAX_POINTS:
        problems.append(document.problem(path, f"expected a sweep of at most {MAX_POINTS:,} points, got {points:,}", "name fewer values"))
        return []
    order = [p.name for p in parameters]
    pairs = []
    nested = {name for name in axes if chosen_kind(by_name[name].annotation)}
    for chosen in itertools.product(*(range(len(values)) for values in axes.values())):
        point = dict(zip(axes, chosen, strict=True))
        everything = {**fixed, **{name: axes[name][i] for name, i in point.items()}}
        swept = {name: raw[name][i] if name in nested else axes[name][i] for name, i in point.items()}
        pairs.append((swept, {n: everything[n] for n in order if n in everything}))
    return pairs


def _default(
    parameter: Parameter, document: Document, path: Path_, problems: list[Problem], fallbacks: Mapping[str, Any] | None = None
) -> Any:
    """Return a parameter's default in the same form as a given value."""
    if chosen_kind(parameter.annotation):
        return value(parameter.annotation, parameter.default, document, path, problems, fallbacks)
    try:
        return validator(parameter.annotation).validate_python(parameter.default)
    except ValidationError:
        return parameter.default


def label(name: str, chosen: Mapping[str, Any]) -> str:
    """Return "NAME@parameter=value,...", or NAME alone if `chosen` is empty."""
    if not chosen:
        return name
    return f"{name}@{_listed(chosen)}"


def _listed(chosen: Mapping[str, Any]) -> str:
    return ",".join(f"{k}={_text(v)}" for k, v in chosen.items())


def _text(value: Any) -> str:
    """Return a value as in labels: 2.0 as "2", a plugin as "hf(artifact=llm)"."""
    if isinstance(value, Mapping):
        name, inner = next(iter(value.items()), ("", None))
        if len(value) == 1 and (inner is None or isinstance(inner, Mapping)):
            return f"{name}({_listed(inner)})" if inner else str(name)
        return f"({_listed(value)})"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
