"""Resolve the `models:` and `finetunes:` sections."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import nearest
from qualm.compiler.spec.plugin_ref import DATA, Ref, artifact_path, located, slug
from qualm.compiler.spec.reader import SpecReader
from qualm.compiler.spec.references_in import names_in, names_of
from qualm.compiler.spec.resolved import FinetuneUse, ModelUse
from qualm.compiler.spec.yaml_positions import Path_
from qualm.registry.entries.model_folders import default_template, is_adapter, is_text_only_folder, model_fault
from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import Artifact, DatasetName, ModelName, Plugin
from qualm.registry.system import textfiles
from qualm.runners.prompts.chat_template import DEFAULT_DATE, parse_date
from qualm.runners.prompts.thinking import ThinkingError, complete_thinking, parse_thinking
from qualm.runners.runtime.server_presets import PRESETS, Preset, find_unsupported

RECORDED = "recorded"
"""Plugin of answers that were given before: no prompt of the spec applies to them."""
TEMPLATES = ("processor_config.json", "chat_template.json")
"""Files that may hold a chat template in older versions of transformers; both have precedence over TEMPLATE."""
TEMPLATE = "chat_template.jinja"
PROMPT = "prompt"
PRESET = "preset"
VERIFIED = "p_yes"
"""Signal of a model that is asked whether its own answer is right."""


def resolve_models(reader: SpecReader, finetunes: Sequence[FinetuneUse]) -> tuple[ModelUse, ...]:
    uses: list[ModelUse] = []
    of_spec = reader.prompts.read(reader.spec.prompt, (PROMPT,), sweep=True)
    own: dict[str, dict[str, dict[str, Any]]] = {}
    for name, entry in reader.spec.models.items():
        path: Path_ = ("models", name)
        if entry.confidence is not None and reader.spec.inference.confidence != "verify":
            message = "only with `inference: {confidence: verify}`; else confidence is read off the answer's own tokens"
            reader.problem((*path, "confidence"), message, "leave it out")
        own_prompts = reader.prompts.read(entry.prompt, (*path, PROMPT), sweep=True)
        written = entry.model_extra or {}
        for plugin, at, swept, all_args in reader.points(written, "models", path):
            preset = PRESETS.get(str(all_args.get(PRESET))) if registry.SERVER in plugin.declares else None
            args = _spelled_out(reader, plugin, written[plugin.name] or {}, all_args, at, preset) if preset else all_args
            folder = _folder(reader, plugin, args)
            template = str(args.get("template") or (chat_template(folder) if folder is not None else ""))
            if folder is not None:
                _check_folder(reader, plugin, folder, at, without_template=args.get("template", "") is None and not template)
            _check_thinking(reader, args, template, at)
            _check_date(reader, args, at)
            sources = names_in(plugin, args, Artifact)
            ref = Ref(validate.label(name, swept), plugin, located(plugin, args))
            source = artifact_path(sources[0]) if sources else None
            own[ref.label] = own_prompts
            if own_prompts and plugin.name == RECORDED:
                reader.problem((*path, PROMPT), "recorded answers were given to their own prompts", "leave it out", key=True)
            beneath = tuple(b for a in sources for b in reader.elsewhere.beneath(a))
            gives = registry.gives(plugin, args) - ({VERIFIED} if entry.confidence else set())
            uses.append(ModelUse(ref, source, gives, entry, beneath, preset))
    uses += tuned_models(reader.spec.name, finetunes, uses, lambda tuned: _loader(reader, tuned))
    bases = {tuned.ref.label: tuned.models for tuned in finetunes}
    for model, name in swept_bases(finetunes, uses):
        message = f"'{name}' is a sweep over several models; a fine-tune begins from one"
        reader.problem(("finetunes", model), message, "name each value of the sweep as a model of its own")
    for use in uses:  # a fine-tune stands behind its base
        own.setdefault(use.ref.label, next((own[base] for base in bases.get(use.ref.label, ()) if own.get(base)), {}))
    prompted = [p for use in uses for p in _prompted(use, of_spec, own[use.ref.label])]
    return tuple(sorted(prompted, key=lambda m: m.unprompted))


def _prompted(use: ModelUse, spec_prompts: Mapping[str, dict[str, Any]], model_prompts: Mapping[str, dict[str, Any]]) -> Iterator[ModelUse]:
    """Yield a copy of a model per prompt, labelled by it; the model itself if `recorded`.

    Both kinds of prompts are {name: prompt keys}.
    """
    if use.ref.plugin.name == RECORDED:
        yield use
        return
    is_own = "" not in model_prompts and bool(model_prompts)
    # A model's list replaces a list of the spec; keys of one prompt of the spec hold for it as well.
    swept = spec_prompts if spec_prompts and (not is_own or "" in spec_prompts) else {"": {}}
    for name, prompt, overrides in ((a or b, p, o) for a, p in swept.items() for b, o in (model_prompts or {"": {}}).items()):
        label = f"{use.ref.label}{',' if '@' in use.ref.label else '@'}{PROMPT}={name}" if name else use.ref.label
        yield replace(use, ref=replace(use.ref, label=label), prompt=prompt, own_prompt=overrides, origin=use.ref.label)


def _check_folder(reader: SpecReader, plugin: Plugin, folder: Path, at: Path_, without_template: bool) -> None:
    fault = model_fault(folder)
    if not fault and without_template and not is_adapter(folder):
        fault = (
            f"{folder}: expected a chat template ({TEMPLATE}), by which questions are put to the model; give one as `template:` "
            "(docs/how-to/models.md)"
        )
    if fault:
        reader.problem((*at, str(plugin.declares["FOLDER"])), fault.replace(str(folder), f"{DATA}/{folder.name}"))


def _check_thinking(reader: SpecReader, args: Mapping[str, Any], template: str, at: Path_) -> None:
    """Record a problem if `thinking` is malformed or does not fit a `template` other than ""."""
    try:
        thinking = parse_thinking(args.get("thinking"))
        if thinking is not None and template:
            complete_thinking(thinking, template)
    except ThinkingError as error:
        reader.problem((*at, "thinking"), str(error).removeprefix("thinking: "))


def _check_date(reader: SpecReader, args: Mapping[str, Any], at: Path_) -> None:
    try:
        parse_date(str(args.get("date") or DEFAULT_DATE))
    except ValueError as error:
        reader.problem((*at, "date"), str(error))


def _folder(reader: SpecReader, plugin: Plugin, args: Mapping[str, Any]) -> Path | None:
    parameter = plugin.declares.get("FOLDER")
    name = args.get(parameter) if parameter else None
    folder = reader.elsewhere.specs.parent / DATA / str(name)
    return folder if name and ":" not in name and folder.is_dir() and any(folder.iterdir()) else None


def _spelled_out(
    reader: SpecReader, plugin: Plugin, written: Mapping[str, Any], args: Mapping[str, Any], at: Path_, preset: Preset
) -> dict[str, Any]:
    """Return `args` plus a preset's values for keys not `written`; report what it cannot do."""
    inference = reader.spec.inference
    wrong = find_unsupported(
        preset,
        args["logprobs"],
        args["prompt_logprobs"],
        "n" in written and args["n"],
        "seeds" in written and args["seeds"],
        inference.temperature if inference.draws and args["sampling"] else 0.0,
    )
    for name, message in wrong.items():
        less = f"`{name}: {preset.top}`, or leave it out" if name == "logprobs" and preset.top else "leave it out"
        reader.problem((*at, name), message, "a lower temperature" if name == PRESET else less)
    preset_args = {plugin.declares[registry.SERVER]: preset.base_url, "n": preset.n, "seeds": preset.seeds}
    return {**args, **{name: value for name, value in preset_args.items() if name not in written}, PRESET: None}


def _loader(reader: SpecReader, tuned: FinetuneUse) -> tuple[Plugin, dict[str, Any]] | None:
    loader = reader.plugin("models", tuned.ref.plugin.declares.get("LOADS_WITH", "hf_vlm"), ("finetunes",))
    if loader is None:
        return None
    defaults = {p.name: p.default for p in loader.parameters}
    return loader, defaults | ({"dtype": reader.run_wide.dtype} if "dtype" in defaults else {})


def chat_template(folder: Path) -> str:
    """Return the chat template in a model's folder as transformers chooses; "" if none."""
    for name in (*TEMPLATES, "tokenizer_config.json") if is_text_only_folder(folder) else TEMPLATES:
        try:
            content = json.loads(textfiles.read_text(folder / name))
        except (textfiles.TextFileError, ValueError, RecursionError):
            continue
        if isinstance(content, dict) and content.get("chat_template"):
            return default_template(content["chat_template"])
    try:
        return textfiles.read_text(folder / TEMPLATE)
    except textfiles.TextFileError:
        return ""


def resolve_finetunes(reader: SpecReader) -> tuple[FinetuneUse, ...]:
    spec = reader.spec
    data, bases = {**spec.datasets, **spec.pairs}, {**spec.models, **spec.finetunes}
    uses: list[FinetuneUse] = []
    for name, entry in spec.finetunes.items():
        for plugin, at, swept, args in reader.points(entry, "finetunes", ("finetunes", name)):
            datasets = _named(reader, plugin, args, at, DatasetName, data)
            models = _named(reader, plugin, args, at, ModelName, bases)
            uses.append(FinetuneUse(Ref(validate.label(name, swept), plugin, located(plugin, args)), datasets, models))
    return tuple(sorted(uses, key=lambda f: f.ref.label))


def _named(
    reader: SpecReader, plugin: Plugin, args: Mapping[str, Any], at: Path_, kind: type[DatasetName | ModelName], candidates: Collection[str]
) -> tuple[str, ...]:
    names = set()
    sections = ("datasets", "pairs") if kind is DatasetName else ("models", "finetunes")
    for parameter in plugin.parameters:
        for used in names_of(parameter.annotation, args.get(parameter.name), kind):
            names.add(used)
            if reader.unknown(used, candidates, *sections):
                what = "dataset" if kind is DatasetName else "model"
                reader.problem((*at, parameter.name), f"expected a {what} of this spec, got '{used}'", nearest(used, candidates))
    return tuple(sorted(names))


Loader = Callable[[FinetuneUse], tuple[Plugin, dict[str, Any]] | None]


def tuned_models(spec: str, finetunes: Iterable[FinetuneUse], models: Iterable[ModelUse], loader: Loader) -> list[ModelUse]:
    """Return a model per fine-tune, bases first; skip those without loader.

    Args:
        loader: returns the plugin that loads a fine-tuned model, and its parameters.
    """
    by_label = {m.ref.label: m for m in models}
    uses: list[ModelUse] = []
    waiting = list(finetunes)
    while waiting:
        unmade = {f.ref.label for f in waiting}
        ready = [f for f in waiting if not unmade & set(f.models)] or waiting  # circles are reported when stages are ordered
        for tuned in ready:
            loaded = loader(tuned)
            if loaded is not None:
                by_label[tuned.ref.label] = _tuned(spec, tuned, by_label, *loaded)
                uses.append(by_label[tuned.ref.label])
        waiting = [f for f in waiting if f not in ready]
    return uses


def _tuned(spec: str, tuned: FinetuneUse, by_label: Mapping[str, ModelUse], plugin: Plugin, args: dict[str, Any]) -> ModelUse:
    """Return the model that a fine-tune makes, to be loaded by `plugin` with `args`.

    An adapter needs its base's files beneath it.
    """
    place = f"results/{spec}/models/{slug(tuned.ref.label)}"
    bases = [by_label[name] for name in tuned.models if name in by_label]
    dtype = {name: base.ref.args[name] for base in bases if base.ref.plugin == plugin for name in ("dtype",) if name in args}
    adapter = any(p.declares.get("ADAPTER") for p in tuned.ref.plugins)
    beneath = dict.fromkeys(path for base in bases if adapter for path in (base.source, *base.beneath) if path)
    args = {**args, **dtype, "artifact": place}
    return ModelUse(Ref(tuned.ref.label, plugin, args), place, registry.gives(plugin, args), beneath=tuple(beneath))


def swept_bases(finetunes: Sequence[FinetuneUse], models: Sequence[ModelUse]) -> Iterator[tuple[str, str]]:
    """Yield (fine-tune's name, base's name) if the base is a sweep of models."""
    labels = {m.ref.label for m in models}
    for tuned in finetunes:
        for name in tuned.models:
            if name not in labels and any(label.startswith(f"{name}@") for label in labels):
                yield tuned.ref.label.split("@")[0], name
