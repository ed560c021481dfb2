"""Constants by which a plugin's module describes itself; all its other constants are private."""

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from qualm.registry.plugins.rule import REQUIRED, Plugin

DECLARATIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "HIGHER_IS_BETTER": ("metrics", "its direction; None where it has none"),
        "OVER": ("metrics", "which of a slice's rows it is measured on"),
        "TEST": ("metrics", "what it is tested against for a perturbation: itself with both sides exchanged, or 0"),
        "TARGET": ("metrics", "the value it should have, where neither direction is better"),
        "INTERVAL": ("metrics", "by which method its interval is"),
        "CONTRASTS": ("metrics", "which of its functions `classes` and `types` holds, where that depends on a parameter"),
        "ONLY_WITH": ("metrics", "with which values of another parameter each of these parameters has a meaning"),
        "WHY_NO_INTERVAL": ("metrics", "why it has none"),
        "COMPARED_BY": ("metrics", "the unbiased metric by which two models are compared"),
        "ROW_BY_ROW": ("metrics", "each row of what it sums is made of that row alone"),
        "INCREASES_WITH": ("metrics", "the argument with which it never falls, so that unread answers bound it"),
        "ASSUMES": ("metrics", "the condition under which it holds, shown below its values"),
        "COMPANIONS": ("metrics", "metrics without which it misleads, computed beside it"),
        "NEEDS": ("metrics estimators", "the columns it reads, where parameters are not named after them"),
        "GIVES": ("models", "the signals it can give"),
        "FOLDER": ("models", "which parameter names a folder as transformers saves a vision-language model, for `qualm validate`"),
        "META": ("datasets preparations", "keys that its samples have beside their fields"),
        "MODALITY": ("perturbations", "what it changes: image, text or cross"),
        "STRENGTHS": ("perturbations", "which of its parameters are strengths"),
        "KEEPS_ANSWER": ("perturbations", "whether the right answer stays right"),
        "READS": ("judges", "which answers it rates: open ones, multiple choice, or both"),
        "MARKS": ("judges", "what it measures beside its rating"),
        "PEOPLE": ("judges", "how many people's answers tell that a question has none"),
        "DECIDES_ABSTENTIONS": ("judges", "its language model says whether an answer abstains, not the detector of rules"),
        "LOADS_WITH": ("finetunes", "the model plugin that loads what it makes"),
        "ADAPTER": ("tunings", "it makes an adapter, not a whole model"),
        "OF": ("exports", "`datasets` where it writes data and no answers, `results` and `runs` where it writes scores"),
        "BESIDE": ("probes", "which parameter names the perturbed variant that it compares with while it learns"),
        "OPTIONS": ("calibrators", "it is handed all options of a multiple-choice question at once"),
        "PROBABILITIES": ("calibrators", "it changes probabilities, and is for no score that is none"),
        "SERVER": ("", "which parameter holds the address of the server it asks"),
        "ASKS": ("", "how often it asks the generator that a parameter names, and what it tells it"),
        "ENGINE": ("models", "modules that shape what is asked and how replies are read"),
        "ASSETS": ("", "files beside the module that it reads"),
        "EXTRA": ("", "the extra of the package without which it cannot run"),
        "ALSO_KNOWN_AS": ("", "names that others give it, which are no names here"),
        "CITES": ("", "the papers it is from, by their keys in registry/published/references.bib"),
    }
)
"""Name -> (kinds of plugins that declare it, "" for all; meaning)."""


def declared(plugin: Plugin) -> dict[str, Any]:
    """Return a plugin's declarations in the order of `DECLARATIONS`."""
    mine = (name for name, (kinds, _) in DECLARATIONS.items() if not kinds or plugin.kind in kinds.split())
    return {name: plugin.declares[name] for name in mine if name in plugin.declares}


BY_ARGUMENT = ("HIGHER_IS_BETTER", "INTERVAL", "WHY_NO_INTERVAL", "CONTRASTS")
"""Declarations that may be {parameter: {value or pattern of values: declaration}}."""


def by_argument(by_value: Mapping[str, Any], value: Any, absent: Any = None) -> Any:
    """Return the entry of an argument's value: of the first key that matches it, with `*` as in file names; `absent` without one.

    >>> by_argument({"Binary*": 1, "*": 2}, "BinaryAUROC"), by_argument({"Binary*": 1}, "MulticlassAUROC", 0)
    (1, 0)
    """
    return next((found for key, found in by_value.items() if key == value or fnmatchcase(str(value), key)), absent)


def for_arguments(plugin: Plugin, args: Mapping[str, Any]) -> Plugin:
    """Return the plugin with the declarations that depend on arguments resolved."""
    arguments = {p.name: p.default for p in plugin.parameters if p.default is not REQUIRED} | dict(args)
    declares = dict(plugin.declares)
    for name in BY_ARGUMENT:
        if isinstance(of := declares.get(name), Mapping):
            ((parameter, by_value),) = of.items()
            declares[name] = by_argument(by_value, arguments.get(parameter), REQUIRED)
            if declares[name] is REQUIRED:
                del declares[name]
    return replace(plugin, declares=declares)


def declares_by_argument(plugin: Plugin) -> bool:
    """Return whether what a plugin declares of itself depends on an argument."""
    return any(isinstance(plugin.declares.get(name), Mapping) for name in BY_ARGUMENT)


def misplaced_arguments(plugin: Plugin, args: Mapping[str, Any]) -> list[str]:
    """Return a message for each argument that has no meaning with the others, by the plugin's `ONLY_WITH`."""
    messages = []
    for key, conditions in plugin.declares.get("ONLY_WITH", {}).items():
        name, _, value = key.partition("=")
        default = next(p.default for p in plugin.parameters if p.name == name)
        given = args.get(name, default)
        if given == default or (value and str(given) != value):
            continue
        for parameter, patterns in conditions.items():
            if not by_argument(dict.fromkeys(patterns, True), args.get(parameter), False):
                of = f"{name}: {given}" if value else name
                messages.append(f"`{of}` has no meaning with `{parameter}: {args.get(parameter)}`; it has with {', '.join(patterns)}")
    return messages
