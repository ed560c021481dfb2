"""Columns that an estimator or a metric reads: one for each positional parameter, which may depend on its arguments.

The compiler, `infer`, `estimate` and `score` all use this rule, so that exactly the columns that are read are computed. Plugins are not
imported. A plugin's file declares `NEEDS`: the list of its columns, or, where a parameter is not named after its column,

    NEEDS = {"prior_logprobs": "logprobs_without_{without}"}                                       # filled in from the arguments
    NEEDS = {"states": "draw_hidden_states/{layer}/answer_last"}                # of a layer (`qualm.registry.plugins.internals`)
    NEEDS = {"draw_logprobs": {"version": {"sum": "draw_logprobs", "kuhn": "draw_logprobs"}}}      # by the value of one argument

In the last form the function receives None if the value is not listed. `*` in a listed value stands for any letters; the first match
counts.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from qualm.registry import DRAWS, SHOWN_DRAWS
from qualm.registry.plugins.column_names import CHOICES, CODE_OF, CONTEXT, DRAWN, GROUP_OF, MARKED_BY, QUESTION, RATED_BY, UNDER
from qualm.registry.plugins.declarations import by_argument
from qualm.registry.plugins.internals import is_internal, parse_internal
from qualm.registry.plugins.registry import Plugin, PluginError


def reads_choices(judge: Plugin) -> bool:
    """Return whether a judge rates multiple-choice questions answered in words."""
    return CHOICES in judge.reads


def reads_open(judge: Plugin) -> bool:
    """Return whether a judge rates open questions: False only if it is for choices alone."""
    return not reads_choices(judge) or "open" in judge.declares.get("READS", ())


def field_of(column: str) -> str:
    """Return FIELD of a `group_of_FIELD` or `code_of_FIELD` column, others unchanged."""
    return column.removeprefix(GROUP_OF).removeprefix(CODE_OF)


def judge_of(column: str) -> str | None:
    """Return JUDGE of a `rated_by_JUDGE` or `marked_by_JUDGE/MARK` column (maybe ""); or None.

    >>> judge_of("rated_by_vqa"), judge_of("marked_by_pope/said"), judge_of("marked_by_/said"), judge_of("correct")
    ('vqa', 'pope', '', None)
    """
    if column.startswith(MARKED_BY):
        return column.removeprefix(MARKED_BY).rpartition("/")[0]
    return column.removeprefix(RATED_BY) if column.startswith(RATED_BY) else None


def mark_of(column: str) -> str | None:
    """Return MARK of a `marked_by_JUDGE/MARK` column; None for any other column."""
    return column.rpartition("/")[2] if column.startswith(MARKED_BY) else None


def columns(plugin: Plugin, args: Mapping[str, Any]) -> dict[str, str | None]:
    """Return {positional parameter: column that it reads, None if none}; else PluginError."""
    declared = plugin.declares.get("NEEDS")
    special: Mapping[str, Any] = declared if isinstance(declared, Mapping) else {}
    own = [name for name in plugin.reads if name != CONTEXT]
    if unknown := sorted(set(special) - set(own)):
        raise PluginError(f"{plugin.path}: NEEDS names {', '.join(unknown)}; expected positional parameters: {', '.join(own)}")
    arguments = {**{p.name: p.default for p in plugin.parameters}, **args}
    try:
        return {name: _column(special.get(name, name), arguments) for name in own}
    except KeyError as error:
        raise PluginError(f"{plugin.path}: NEEDS depends on {error}; expected a parameter of {plugin.name}") from error
    except ValueError as error:
        raise PluginError(f"{plugin.name} reads {error}") from error


def signals(column_names: Iterable[str]) -> frozenset[str]:
    """Return the set of signals, as in a model's `GIVES`, that these columns need."""
    words: set[str] = set()
    for column in column_names:
        # Of drawn columns a model gives the greedy one and draws, not a column of that name.
        if drawn := drawn_from(column):
            words |= {DRAWS, drawn}
        elif is_internal(column):
            words |= {column, DRAWS} if parse_internal(column).drawn else {column}
        elif column != QUESTION:
            words |= {column, DRAWS} if column in SHOWN_DRAWS else {column}
    return frozenset(words)


def drawn_from(column: str) -> str:
    """Return the GENERATIONS column that a column in DRAWN or UNDER reads; "" for others.

    >>> drawn_from("draw_texts"), drawn_from("draw_logprobs_under_blur"), drawn_from("text")
    ('text', 'token_logprobs', '')
    """
    return DRAWN.get(column) or next((of for prefix, of in UNDER.items() if column.startswith(prefix)), "")


def variants_of(column: str) -> str:
    """Return VARIANTS of a `draw_texts_under_VARIANTS` or similar column; else "".

    >>> variants_of("draw_texts_under_blur@radius=2"), variants_of("draw_texts")
    ('blur@radius=2', '')
    """
    return next((column.removeprefix(prefix) for prefix in UNDER if column.startswith(prefix)), "")


def is_recalibrated(column_names: Iterable[str], args: Mapping[str, Any]) -> bool:
    """Return whether a metric with these columns is also shown on recalibrated confidence."""
    of = set(column_names)
    return "confidence" in of and not of & {"covered", "set_size"} and not ("is_calibration" in of and args.get("rows") == "all")


def _column(declared: Any, args: Mapping[str, Any]) -> str | None:
    if isinstance(declared, str):
        column: str | None = declared.format_map(args)
    else:
        ((argument, by_value),) = declared.items()
        column = by_argument(by_value, args[argument])
    return parse_internal(column).column if column is not None and is_internal(column) else column
