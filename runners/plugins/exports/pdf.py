r"""PDF: the charts of a spec as figures for a paper, with a LaTeX file that has them and their captions."""

from qualm.runners.plugins.exports import ExportContext
from qualm.runners.plugins.exports._figures import figures
from qualm.runners.plugins.exports.latex import escaped

OF = "results"


def pdf(context: ExportContext, *, only: str = "", width: str = "column", metrics: str = "") -> None:
    r"""Write PDF figures for each chart and dataset, at a journal's column width.

    Charts are leaderboard, estimators, reliability, risk_coverage, set_sizes, urr and hcc. Text is
    searchable, in embedded fonts. `figures.tex` has each figure with its caption:
    `\usepackage{graphicx}` and `\input{OUT/figures.tex}`, in a document beside the folder OUT.

    Args:
        only: Charts, separated by commas; by default all with results.
        width: `column` (85 mm), `page` (175 mm), or millimetres.
        metrics: Metrics of the leaderboard and of estimators, separated by commas.
    """
    import vl_convert

    drawn = figures(context, only, width, metrics)
    lines = [f"% {context.spec}, {context.revision}: figures by `qualm export --to pdf`; needs \\usepackage{{graphicx}}"]
    for figure in drawn:
        # the converter makes a page of as many points as a drawing has pixels
        (context.folder / f"{figure.name}.pdf").write_bytes(vl_convert.svg_to_pdf(figure.svg.replace('pt"', '"', 2)))
        caption = rf"\caption{{{escaped(figure.caption)}}}\label{{fig:{figure.name}}}"
        lines += [
            r"\begin{figure}\centering",
            rf"\includegraphics{{{context.path_from_parent(figure.name)}.pdf}}",
            caption,
            r"\end{figure}",
        ]
    (context.folder / "figures.tex").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    context.counts["figures"] = len(drawn)
