"""SVG: the charts of a spec as figures that stand alone."""

from qualm.runners.plugins.exports import ExportContext
from qualm.runners.plugins.exports._figures import figures

OF = "results"


def svg(context: ExportContext, *, only: str = "", width: str = "column", metrics: str = "") -> None:
    """SVG: a figure for each chart and data set, at a journal's column width: leaderboard, estimators, reliability, risk_coverage,
    set_sizes, urr, hcc.

    Each file stands alone: colours are written out, fonts are named, text is text. Black text of 7 points, and colours that colour-blind
    readers tell apart.

    Args:
        only: These charts, with commas between them; by default all that there are results for.
        width: `column` (85 mm), `page` (175 mm), or millimetres.
        metrics: Of the leaderboard and of estimators: these metrics, with commas between them.
    """
    drawn = figures(context, only, width, metrics)
    for figure in drawn:
        (context.folder / f"{figure.name}.svg").write_text(figure.svg, encoding="utf-8", newline="\n")
    context.counts["figures"] = len(drawn)
