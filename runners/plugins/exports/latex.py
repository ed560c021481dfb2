r"""LaTeX: the scores of a spec as tables for a paper, one file each, with the package booktabs."""

from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import Ge, Le

from qualm.runners.plugins.exports import ExportContext, slug
from qualm.runners.plugins.exports._results import BEST, PERHAPS, ResultTable, cells, legend, result_tables, words

OF = "results"
ESCAPED = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "†": r"$^\dagger$", "−": "$-$",
}  # fmt: skip
ARROWS = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}


def latex(
    context: ExportContext, *, variant: str = "clean", slice: str = "all", digits: Annotated[int, Ge(0), Le(15)] = 3, intervals: bool = True
) -> None:
    r"""Write LaTeX tables (booktabs) of models by metric and of estimators by metric.

    `tables.tex` includes all: `\usepackage{booktabs}` and `\input{OUT/tables.tex}`, in a document beside the folder OUT. Bold:
    significantly better than every other by a corrected paired test. Dagger: no better one differs significantly. Arrows point to better.

    Args:
        variant: Of the inputs: `clean`, or a perturbed one.
        slice: Of the questions: `all`, FIELD=VALUE, or `macro:FIELD` for a macro average.
        digits: Digits behind the decimal point.
        intervals: Write intervals beside the values.
    """
    tables = result_tables(context, variant, slice)
    names = []
    for table in tables:
        names.append(f"{slug(table.name)}.tex")
        (context.folder / names[-1]).write_text(_table(table, digits, intervals, context.scoring), encoding="utf-8", newline="\n")
    head = f"% {context.spec}, {context.revision}: tables by `qualm export --to latex`; needs \\usepackage{{booktabs}}\n"
    (context.folder / "tables.tex").write_text(
        head + "".join(f"\\input{{{context.beside(name)}}}\n" for name in names), encoding="utf-8", newline="\n"
    )
    context.counts["tables"] = len(tables)


def _table(table: ResultTable, digits: int, intervals: bool, scoring: Mapping[str, Any]) -> str:
    heads = [escaped(column) + ARROWS[better] for column, better in table.columns]
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * len(heads)}}}", r"\toprule"]
    lines += [" & ".join([escaped(table.stub), *heads]) + r" \\", r"\midrule"]
    for name, values in cells(table):
        row = [escaped(name)]
        for value in values:
            if value is None:
                row.append("--")
                continue
            number, between = words(value, digits, "$-$")
            number = rf"\textbf{{{number}}}" if value.rank == BEST else number + r"$^\dagger$" * (value.rank == PERHAPS)
            row.append(number + (rf" {{\scriptsize ({between})}}" if between and intervals else ""))
        lines.append(" & ".join(row) + r" \\")
    caption = escaped(". ".join(filter(None, [table.title, *(table.notes if intervals else ()), legend([table], scoring)])))
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", rf"\label{{tab:{slug(table.name)}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Escape a text for LaTeX.

    >>> print(escaped("ece@bins=5_%"))
    ece@bins=5\\_\\%
    """
    return "".join(ESCAPED.get(character, character) for character in text)
