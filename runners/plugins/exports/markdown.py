"""Markdown: the scores of a spec as tables on one page."""

from typing import Annotated

from annotated_types import Ge, Le

from qualm.registry.formats.markdown import inline
from qualm.runners.plugins.exports import ExportContext
from qualm.runners.plugins.exports._results import BEST, PERHAPS, caption, cells, format_value, result_tables

OF = "results"
ARROWS = {True: " ↑", False: " ↓", None: ""}


def markdown(
    context: ExportContext, *, variant: str = "clean", slice: str = "all", digits: Annotated[int, Ge(0), Le(15)] = 3, intervals: bool = True
) -> None:
    """Write Markdown tables of models by metric and of estimators by model, in `tables.md`.

    Each metric of estimators, conformal scores or calibrators has a table of its own.

    Bold: significantly better than every other by a corrected paired test. †: no better one differs significantly.

    Args:
        variant: Of the inputs: `clean`, or a perturbed one.
        slice: Of the questions: `all`, FIELD=VALUE, or `macro:FIELD` for a macro average.
        digits: Digits behind the decimal point.
        intervals: Write intervals beside the values.
    """
    tables = result_tables(context, variant, slice)
    lines = [f"# {inline(context.title or context.spec)}", ""]
    for table in tables:
        lines += [f"## {inline(table.title)}", ""]
        lines += [f"| {' | '.join([table.stub, *(inline(table.heading(column)) + ARROWS[better] for column, better in table.columns)])} |"]
        lines += [f"|---|{'---:|' * len(table.columns)}"]
        for name, values in cells(table):
            row = [inline(name)]
            for value in values:
                number, between = format_value(value, digits, "−") if value is not None else ("–", "")
                if value is not None:
                    number = f"**{number}**" if value.rank == BEST else number + "†" * (value.rank == PERHAPS)
                row.append(number + (f" ({between})" if between and intervals else ""))
            lines.append(f"| {' | '.join(row)} |")
        lines += ["", inline(caption(table, context.scoring, intervals)), ""]
    lines += [f"Revision {context.revision}." if context.revision else ""]
    (context.folder / "tables.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8", newline="\n")
    context.counts["tables"] = len(tables)
