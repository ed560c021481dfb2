"""Lookup of plugins: a spec key names a folder, a spec value names the file in it and the function in that file.

`metrics: [ece: {bins: 15}]` is `def ece(..., *, bins: int = 15)` in `runners/plugins/metrics/ece.py`. Its keyword-only
arguments are the spec's parameters; its positional arguments are what the runner passes (for metrics and estimators
their names are the columns it reads); UPPER-CASE literals of the module are its declarations.

All of that is read from the source text. Nothing is imported until `load`, so listing plugins or checking a spec
against them costs milliseconds and needs no torch. Other packages add plugins by an entry point in the group
`qualm.KIND` whose value is the module's name: `[project.entry-points."qualm.metrics"] spherical = "my_package.spherical"`.
"""

import ast
import difflib
import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types

from qualm.registry.places import PACKAGE, project_folder
from qualm.registry.plugins.protocols import faults
from qualm.registry.plugins.validation import fits, validator
from qualm.registry.system import textfiles
from qualm.registry.system.textfiles import shorten, warn

ROOT = PACKAGE
"""Folder of our own packages; a project's plugins are in the same folders of the project."""

_OF_RUNNERS = (
    "pairs", "perturbations", "models", "finetunes", "tunings", "judges", "estimators", "conformal", "calibrators", "metrics",
    "generators", "saliency", "masks", "inpainters", "abstentions", "probes", "nli", "exports",
)  # fmt: skip
KINDS = {
    "datasets": "registry/adapters",
    "preparations": "registry/preparations",
    **{kind: f"runners/plugins/{kind}" for kind in _OF_RUNNERS},
}
"""Spec key -> plugin folder. A missing folder has no plugins."""

NESTED = ("preparations", "tunings", "generators", "saliency", "masks", "inpainters", "nli")
"""Kinds that are no section of a spec: a parameter of another plugin, or of a dataset, names their plugins."""

COMMANDS = ("exports",)
"""Kinds that a command names, not a spec."""

PROMPTS = "specs/prompts"

DVC_IGNORES = frozenset({"size", "nfiles"})
"""Keys that DVC leaves out of its run cache: a parameter with such a name would restore wrong results."""

SERVER = "SERVER"
"""Declaration of the parameter that holds a server's address, `SERVER = "base_url"`; `model` names the model there."""

MAX_BYTES = 1 << 20
MAX_EXACT = 2**53 - 1
"""Largest whole number that every JSON reader keeps exactly."""
MAX_NUMBER = 10_000_000
LIMITS = (annotated_types.Ge(-MAX_NUMBER), annotated_types.Le(MAX_NUMBER))
"""Bounds of a numeric parameter that declares none."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Required:
    """Type of REQUIRED, which stands as default of parameters without one."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = Required()

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""Names of datasets, models and entries of `registry/data/`."""

NAME_RULE = "A-Z, a-z, 0-9, '_', '-' and '.', beginning with a letter or digit, at most 64"


@dataclass(frozen=True)
class Mark:
    """Annotation of a str parameter that names an artifact, dataset, model or prompt."""

    names: str
    pattern: str
    """Regular expression of valid names."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(source), "pattern": self.pattern}


PROMPT_PATTERN = rf"{NAME_PATTERN[:-1]}(/{NAME_PATTERN[1:-1]})?$"
"""Files of `specs/prompts/`, or of a folder in it, without their suffix."""
Artifact = Annotated[str, Mark("artifact", rf"{NAME_PATTERN[:-1]}(:[A-Za-z0-9][A-Za-z0-9_.@=,-]{{0,127}})?$")]
"""Parameter type: an entry of `registry/data/`, or `SPEC:MODEL`, a model that another spec makes."""
DatasetName = Annotated[str, Mark("dataset", NAME_PATTERN)]
"""Parameter type: a dataset of the same spec."""
ModelName = Annotated[str, Mark("model", NAME_PATTERN)]
"""Parameter type: a model of the same spec."""
PromptFile = Annotated[str, Mark("prompt", PROMPT_PATTERN)]
"""Parameter type: a file `specs/prompts/NAME.md`, or `FOLDER/NAME`."""

Chosen = str | Mapping[str, Any]
"""Parameter type: a plugin of another kind, as `Annotated[Chosen, Kind("generators")]`.

A spec says `name`, or `name: {parameters}` in braces; the plugin receives `{"plugin": name, "args": {every parameter}}`
and turns it into a function by `load_chosen`."""


@dataclass(frozen=True)
class Kind:
    """Annotation of a `Chosen` parameter: the kind of plugin that its value names."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise ValueError(f"no plugin kind '{self.name}'; there are: {', '.join(KINDS)}")


class PluginError(Exception):
    """Error of a missing or faulty plugin; the message names file and remedy."""


class UnknownPluginError(PluginError):
    """Error raised when a kind of plugin has none with the given name."""

    @classmethod
    def with_advice(cls, kind: str, name: str, instead: str) -> "UnknownPluginError":
        return cls(f"no {kind} plugin named '{name}'; {instead}")


@dataclass(frozen=True)
class Parameter:
    """A keyword-only parameter of a plugin's function, a key of the spec."""

    name: str
    annotation: Any
    default: Any
    text: str
    """Annotation in the source, for help."""


@dataclass(frozen=True)
class Plugin:
    """A plugin as its source describes it, without importing it."""

    kind: str
    name: str
    path: Path
    module: str
    doc: str
    reads: tuple[str, ...]
    """Names of the positional arguments; columns for metrics and estimators."""
    parameters: tuple[Parameter, ...]
    declares: dict[str, Any]
    """UPPER-CASE module constants that are literals (NEEDS, GIVES, MODALITY...), and the fields of a metric's META."""
    computed: frozenset[str] = frozenset()
    """Other UPPER-CASE module constants."""

    @property
    def summary(self) -> str:
        return self.doc.strip().splitlines()[0] if self.doc.strip() else ""


def names(kind: str) -> list[str]:
    """Return the names of a kind's plugins, sorted; print warnings of broken ones."""
    present = sorted(files(kind))
    for fault in _broken(kind).values():
        warn(fault)
    return present


def every(kind: str) -> list[Plugin]:
    """Return a kind's valid plugins by name; print a warning for each invalid one."""
    plugins = []
    present, broken = files(kind), _broken(kind)
    for fault in broken.values():
        warn(fault)
    for name in sorted(present):
        try:
            plugins.append(_get(kind, name, present, broken))
        except PluginError as error:
            warn(str(error))
    return plugins


def get(kind: str, name: str) -> Plugin:
    """Return a plugin's description, read from its source; PluginError if none or faulty.

    Raises:
        UnknownPluginError: no such plugin; the message suggests the nearest name (`foreign_names.get` knows other libraries' names too).
        PluginError: its file breaks the rule.
    """
    return _get(kind, name, files(kind), _broken(kind))


def _get(kind: str, name: str, present: Mapping[str, tuple[Path, str]], broken: Mapping[str, str]) -> Plugin:
    if name in broken:
        raise PluginError(broken[name])
    if name not in present:
        near = difflib.get_close_matches(name, present, 1, 0.5)
        advice = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(sorted(present)) or 'none'}"
        raise UnknownPluginError.with_advice(kind, name, advice)
    return _checked(kind, name, *present[name])


@cache
def _checked(kind: str, name: str, path: Path, module: str) -> Plugin:
    """Return a plugin's description, read from its source, cached; PluginError if faulty."""
    plugin = _read(kind, name, path, module)
    parameters = [p.name for p in plugin.parameters]
    wrong = "; ".join(faults(plugin.kind, plugin.name, plugin.reads, parameters, plugin.declares, plugin.computed))
    if wrong:
        contracts = "registry/plugins/protocols.py"
        raise PluginError(f"{plugin.path}: {wrong}; see {contracts if project_folder(contracts) is None else ROOT / contracts}")
    return plugin


def load(kind: str, name: str) -> Callable[..., Any]:
    """Import a plugin's module and return the function with exactly the plugin's name."""
    plugin = get(kind, name)
    function: Callable[..., Any] = getattr(importlib.import_module(plugin.module), name)
    return function


def load_chosen(kind: str, value: Chosen) -> Callable[..., Any]:
    """Import and return the function of a `Chosen` value, its arguments bound.

    Args:
        value: the parameter's value: `{"plugin": name, "args": {...}}`, or a bare name for the plugin's own defaults.
    """
    if isinstance(value, str):
        return load(kind, value)
    if set(value) != {"plugin", "args"}:
        raise PluginError(f"expected a name or {{'plugin': ..., 'args': ...}} of {kind}, got {dict(value)!r}")
    return partial(load(kind, value["plugin"]), **value["args"])


def gives(plugin: Plugin, args: Mapping[str, Any]) -> frozenset[str]:
    """Return the signals that a model gives with arguments `args`, by its `GIVES`.

    That is a list of words, of which `{"word": "parameter"}` is given only if that parameter (or each of a list of
    parameters) is neither null, false, 0 nor empty; or `{"parameter": {value: list}}`, a list for each value of one parameter.
    """
    args = _with_defaults(plugin, args)
    return frozenset(word for word, needs in _conditions(plugin, args).items() if all(args[name] for name in needs))


def would_give(plugin: Plugin, args: Mapping[str, Any], words: Iterable[str]) -> tuple[str, ...] | None:
    """Return the parameters to set for a model to give signals `words`; None if impossible."""
    args = _with_defaults(plugin, args)
    conditions = _conditions(plugin, args)
    if not conditions.keys() >= set(words):
        return None
    return tuple(dict.fromkeys(name for word in words for name in conditions[word] if not args[name]))


def could_give(plugin: Plugin) -> frozenset[str]:
    """Return all signals that a model gives with any arguments, by its `GIVES`."""
    declared = plugin.declares.get("GIVES", ())
    lists = [one for by_value in declared.values() for one in by_value.values()] if isinstance(declared, Mapping) else [declared]
    return frozenset(word for one in lists for item in one for word in ([item] if isinstance(item, str) else item))


def meta_keys(plugin: Plugin, args: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the `meta` keys of an adapter's or preparation's samples; None if unknown.

    `META` is a list of keys, of which `{"of": "parameter"}` stands for those that this parameter lists.
    """
    if "META" not in plugin.declares:
        return None
    args = _with_defaults(plugin, args)
    keys_of_meta: list[str] = []
    for item in plugin.declares["META"]:
        keys = [item] if isinstance(item, str) else args.get(item["of"])
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            return None
        keys_of_meta += keys
    return tuple(keys_of_meta)


def _with_defaults(plugin: Plugin, args: Mapping[str, Any]) -> dict[str, Any]:
    return {**{p.name: p.default for p in plugin.parameters if p.default is not REQUIRED}, **args}


def _conditions(plugin: Plugin, args: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    declared = plugin.declares.get("GIVES", ())
    if isinstance(declared, Mapping):
        (parameter, by_value), *others = declared.items()
        if others or args.get(parameter) not in by_value:
            raise PluginError(f"{plugin.path}: GIVES: expected one parameter and what each of its values gives, got {declared!r}")
        declared = by_value[args[parameter]]
    conditions: dict[str, tuple[str, ...]] = {}
    for item in declared:
        for word, needs in ({item: ()} if isinstance(item, str) else item).items():
            conditions[word] = (needs,) if isinstance(needs, str) else tuple(needs)
            if unknown := [name for name in conditions[word] if name not in args]:
                there = ", ".join(p.name for p in plugin.parameters)
                raise PluginError(f"{plugin.path}: GIVES: {word} depends on '{unknown[0]}'; expected one of its parameters: {there}")
    return conditions


def files(kind: str) -> dict[str, tuple[Path, str]]:
    """Return {plugin name: (file, module name)} of a kind; PluginError if no such kind."""
    if kind not in KINDS:
        raise PluginError(f"no plugin kind '{kind}'; there are: {', '.join(KINDS)}")
    # The order decides nothing: a name that stands in two of them is refused (`_broken`).
    return _of_project(kind, project_folder(KINDS[kind])) | _of_qualm(kind) | _installed(kind)[0]


@cache
def _of_qualm(kind: str) -> dict[str, tuple[Path, str]]:
    return _in_folder(ROOT / KINDS[kind], f"qualm.{KINDS[kind].replace('/', '.')}")


@cache
def _of_project(kind: str, folder: Path | None) -> dict[str, tuple[Path, str]]:
    return {} if folder is None else _in_folder(folder, f"qualm.project.{folder.name}")


def _in_folder(folder: Path, package: str) -> dict[str, tuple[Path, str]]:
    # Files that begin with an underscore are helpers, and `__init__.py` is the kind's own page.
    return {p.stem: (p, f"{package}.{p.stem}") for p in folder.glob("*.py") if _NAME.fullmatch(p.stem)}


def _broken(kind: str) -> dict[str, str]:
    # Ours last, so that the message names our file where both have the name.
    others = {**_installed(kind)[0], **_of_qualm(kind)}
    own = _of_project(kind, project_folder(KINDS[kind]))
    return _installed(kind)[1] | {
        name: f"{kind} plugin '{name}': {own[name][0]} has the same name as {others[name][0]}; rename it"
        for name in own.keys() & others.keys()
    }


@cache
def _entry_points() -> Any:
    return importlib.metadata.entry_points()


def installed_plugin(module: str) -> tuple[str, str] | None:
    """Return (kind, name) of the first entry point that names `module`; None if none does."""
    points = ((kind, point) for kind in KINDS for point in _entry_points().select(group=f"qualm.{kind}"))
    # By the text, since a malformed entry point has no `module`.
    return next(((kind, point.name) for kind, point in points if point.value.partition(":")[0].strip() == module), None)


@cache
def _installed(kind: str) -> tuple[dict[str, tuple[Path, str]], dict[str, str]]:
    """Return ({name: (file, module)}, {name: fault}) of plugins in other packages."""
    files: dict[str, tuple[Path, str]] = {}
    lost: dict[str, str] = {}
    for point in _entry_points().select(group=f"qualm.{kind}"):
        ours = ROOT / KINDS[kind] / f"{point.name}.py"
        try:
            if ours.is_file() or point.name in files:
                other = ours if ours.is_file() else files[point.name][0]
                raise PluginError(f"{kind} plugin '{point.name}' of package {point.value!r} has the same name as {other}; rename it")
            files[point.name] = (_locate(point.module), point.module)
        except PluginError as error:
            lost[point.name] = f"{kind} plugin '{point.name}': {error}"
        except (ImportError, ValueError, AttributeError, AssertionError, OSError) as error:
            why = error or type(error).__name__
            lost[point.name] = f"{kind} plugin '{point.name}': entry point {point.value!r} cannot be loaded: {why}"
    return files, lost


def _locate(module: str) -> Path:
    """Return a module's file without importing it; PluginError if there is none."""
    first, *rest = module.split(".")
    spec = importlib.util.find_spec(first)
    if spec is None or spec.origin is None:
        raise PluginError(f"entry point names module '{module}', which is not installed; install the package again, or remove it")
    if not rest:
        return Path(spec.origin)
    # Not `find_spec` of the whole name, which would import the parents and run somebody's code to list a plugin.
    for place in spec.submodule_search_locations or ():
        base = Path(place).joinpath(*rest)
        for candidate in (base.with_suffix(".py"), base / "__init__.py"):
            if candidate.is_file():
                return candidate
    raise PluginError(f"entry point names module '{module}', whose file was not found under {spec.origin}")


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(textfiles.read_text(path, MAX_BYTES), str(path))
    except textfiles.TextFileError as error:
        raise PluginError(str(error)) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PluginError(f"{path}: cannot be read as Python: {error or type(error).__name__}") from None


def constants_of(path: Path) -> tuple[dict[str, Any], frozenset[str]]:
    """Return ({name: value} of a file's UPPER-CASE literals, names of computed constants).

    `NAME = Type(key=literal, ...)` counts as a literal: the mapping of its keywords.
    """
    return _constants(_parsed(path))


def _constants(tree: ast.Module) -> tuple[dict[str, Any], frozenset[str]]:
    constants: dict[str, Any] = {}
    computed: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id.isupper():
                    try:
                        constants[target.id] = _written_out(node.value)
                    except (ValueError, TypeError, RecursionError):
                        computed.add(target.id)
    # Whatever is assigned twice counts by the assignment that can be read.
    return constants, frozenset(computed - constants.keys())


def _written_out(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and node.keywords and not node.args and all(k.arg for k in node.keywords):
        return {k.arg: ast.literal_eval(k.value) for k in node.keywords}
    return ast.literal_eval(node)


def _read(kind: str, name: str, path: Path, module: str) -> Plugin:
    tree = _parsed(path)
    constants, computed = _constants(tree)
    if kind == "metrics" and isinstance(constants.get("META"), dict):
        constants |= constants.pop("META")
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name not in functions:
        raise PluginError(f"{path}: expected a function named '{name}', found {', '.join(functions) or 'none'}")
    arguments = functions[name].args
    parameters = []
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        where = f"{path}:{argument.lineno}: parameter '{argument.arg}' of {name}"
        if argument.arg in DVC_IGNORES:
            raise PluginError(f"{where}: choose another name; DVC's run cache ignores changes of a parameter with this name")
        if argument.annotation is None:
            raise PluginError(f"{where}: has no annotation; the spec's schema is made from it")
        annotation = _annotation(argument.annotation, where)
        # DVC compares parameters with ==, for which 1, 1.0 and True are one value.
        if get_origin(annotation) is Union and len({bool, int, float} & set(map(plain_type, get_args(annotation)))) > 1:
            raise PluginError(f"{where}: mixes bool, int and float, between which DVC sees no change; choose one of them")
        value = REQUIRED if default is None else _literal(default, where)
        if value is not REQUIRED and not fits(annotation, value):
            raise PluginError(f"{where}: expected a default of type {_text(argument.annotation)}, got {shorten(value)}")
        parameters.append(Parameter(argument.arg, annotation, value, _text(argument.annotation)))
    if spread := arguments.vararg or arguments.kwarg:
        raise PluginError(f"{path}:{spread.lineno}: {name}: expected every parameter by its name, got '*{spread.arg}'")
    reads = tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args))
    doc = ast.get_docstring(functions[name]) or ""
    return Plugin(kind, name, path, module, doc, reads, tuple(parameters), constants, computed)


def _bounded(annotation: Any, *bounds: Any) -> Any:
    """Return the annotation with `bounds`; numbers also get the default limits they lack."""
    kind = plain_type(annotation)
    if kind not in (int, float):
        return Annotated[(annotation, *bounds)]  # type: ignore[return-value]
    missing = [limit for limit, side in zip(LIMITS, _SIDES, strict=True) if not any(isinstance(b, side) for b in bounds)]
    return Annotated[(kind, *bounds, *missing)]  # type: ignore[return-value]


def plain_type(annotation: Any) -> Any:
    """Return an annotation's bare type: int for Annotated[int, ...], list for list[str]."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else get_origin(annotation) or annotation


_SIDES = ((annotated_types.Ge, annotated_types.Gt), (annotated_types.Le, annotated_types.Lt))
_BOUNDS = {name: getattr(annotated_types, name) for name in ("Ge", "Gt", "Le", "Lt", "MinLen", "MaxLen", "MultipleOf")}
_TYPES = {
    "int": _bounded(int),
    "float": _bounded(float),
    "str": str,
    "bool": bool,
    "Artifact": Artifact,
    "DatasetName": DatasetName,
    "ModelName": ModelName,
    "PromptFile": PromptFile,
}
"""Names in annotations; everything else is refused, so that reading a signature runs no code of its file."""


def _annotation(node: ast.expr, where: str) -> Any:
    try:
        annotation = _evaluated(node)
        validator(annotation)
    except RecursionError:
        raise PluginError(f"{where}: annotation is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise PluginError(
            f"{where}: annotation '{ast.unparse(node)}' is not one a spec can hold ({error}); use int, float, str, bool, None, Artifact, "
            "PromptFile, DatasetName, ModelName, Literal[...], list[...], dict[str, ...], X | Y, Annotated[..., Ge(0), Lt(1)] or "
            'Annotated[Chosen, Kind("generators")]'
        ) from None
    return annotation


def _evaluated(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name) if name in _TYPES:
            return _TYPES[name]
        case ast.Constant(value=None):
            return None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return Union[_evaluated(left), _evaluated(right)]  # noqa: UP007 - built at run time
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            return Literal[ast.literal_eval(values)]
        case ast.Subscript(
            value=ast.Name(id="Annotated"),
            slice=ast.Tuple(elts=[ast.Name(id="Chosen"), ast.Call(func=ast.Name(id="Kind"), args=[ast.Constant(value=str(kind))])]),
        ):
            return Annotated[Chosen, Kind(kind)]
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, *bounds])):
            return _bounded(*map(_evaluated, [inner, *bounds]))
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return list[_evaluated(inner)]  # type: ignore[misc]
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, value])):
            return dict[_evaluated(key), _evaluated(value)]  # type: ignore[misc]
        case ast.Call(func=ast.Name(id=name), args=[bound], keywords=[]) if name in _BOUNDS:
            return _BOUNDS[name](ast.literal_eval(bound))
    raise ValueError(f"'{ast.unparse(node)}' is unknown")


def _text(annotation: ast.expr) -> str:
    """Return an annotation's source text for help; a nested plugin is "plugin of KIND"."""
    return re.sub(r"Annotated\[Chosen, Kind\('([a-z]+)'\)\]", r"plugin of \1", ast.unparse(annotation))


def _literal(node: ast.expr, where: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise PluginError(f"{where}: '{ast.unparse(node)}' must be written out as a literal") from None
