r"""LaTeX: the scores of a spec as tables for a paper, one file each, with the packages booktabs and graphicx."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import Ge, Le

from qualm.runners.plugins.exports import ExportContext, slug
from qualm.runners.plugins.exports._results import BEST, PERHAPS, ResultTable, caption, cells, format_value, result_tables

OF = "results"
ESCAPED = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "†": r"$^\dagger$", "−": "$-$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "→": r"$\rightarrow$", "∞": r"$\infty$", "≤": r"$\leq$",
    "≥": r"$\geq$", "≠": r"$\neq$", "≈": r"$\approx$", "×": r"$\times$", "±": r"$\pm$", "°": r"$^\circ$", "µ": r"$\mu$",
}  # fmt: skip
CAPITALS = ("gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "upsilon", "phi", "psi", "omega")
"""Greek capitals that LaTeX has a symbol for."""
FOREIGN = re.compile(r"[^\x00-\u017f\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u2026]")
"""Characters that pdfLaTeX cannot set without further packages."""
FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{"
"""Scales a table down to the width of the text if it is broader."""
ARROWS = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}


def latex(
    context: ExportContext, *, variant: str = "clean", slice: str = "all", digits: Annotated[int, Ge(0), Le(15)] = 3, intervals: bool = True
) -> None:
    r"""Write LaTeX tables: models by metric, and for each metric estimators by model.

    `tables.tex` includes all: `\usepackage{booktabs,graphicx}` and `\input{OUT/tables.tex}`, in a document beside the folder OUT. Bold:
    significantly better than every other by a corrected paired test. Dagger: no better one differs significantly. Arrows point to better.
    Names are those of the report; the caption gives dataset, numbers of questions, level of the intervals and meaning of the marks.

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
    texts = "".join((context.folder / name).read_text(encoding="utf-8") for name in names)
    foreign = "".join(sorted(set(FOREIGN.findall(texts))))
    source = " ".join(filter(None, [context.spec, context.revision]))
    head = f"% {source}: tables by `qualm export --to latex`; needs \\usepackage{{booktabs,graphicx}}\n"
    head += f"% needs XeLaTeX or LuaLaTeX and a font that has: {foreign}\n" if foreign else ""
    (context.folder / "tables.tex").write_text(
        head + "".join(f"\\input{{{context.path_from_parent(name)}}}\n" for name in names), encoding="utf-8", newline="\n"
    )
    context.counts["tables"] = len(tables)


def _table(table: ResultTable, digits: int, intervals: bool, scoring: Mapping[str, Any]) -> str:
    heads = [escaped(table.heading(column)) + ARROWS[better] for column, better in table.columns]
    lines = [r"\begin{table}", r"\centering", FIT + rf"\begin{{tabular}}{{l{'r' * len(heads)}}}", r"\toprule"]
    lines += [" & ".join([escaped(table.stub), *heads]) + r" \\", r"\midrule"]
    for name, values in cells(table):
        row = [escaped(name)]
        for value in values:
            if value is None:
                row.append("--")
                continue
            number, between = format_value(value, digits, "$-$")
            number = rf"\textbf{{{number}}}" if value.rank == BEST else number + r"$^\dagger$" * (value.rank == PERHAPS)
            row.append(number + (rf" {{\scriptsize ({between})}}" if between and intervals else ""))
        lines.append(" & ".join(row) + r" \\")
    lines += [
        r"\bottomrule",
        r"\end{tabular}}",
        rf"\caption{{{escaped(caption(table, scoring, intervals))}}}",
        rf"\label{{tab:{slug(table.name)}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Return a text with LaTeX's special characters escaped, and Greek letters as commands.

    >>> print(escaped("ece@bins=5_%"))
    ece@bins=5\_\%
    """
    return "".join(ESCAPED.get(character) or _greek(character) for character in text)


def _greek(character: str) -> str:
    """Return a Greek letter as a LaTeX symbol, and any other character as it is."""
    match = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(character, ""))
    if match is None or match[2] == "OMICRON" or (match[1] == "CAPITAL" and match[2].lower().replace("lamda", "lambda") not in CAPITALS):
        return character
    name = match[2].lower().replace("lamda", "lambda")
    return rf"$\{name if match[1] == 'SMALL' else name.capitalize()}$"
