"""SVG: the charts of a spec as figures that stand alone."""

from qualm.runners.plugins.exports import ExportContext
from qualm.runners.plugins.exports._figures import figures

OF = "results"


def svg(context: ExportContext, *, only: str = "", width: str = "column", metrics: str = "") -> None:
    """Write SVG figures for each chart and dataset, at a journal's column width.

    Charts are leaderboard, estimators, reliability, risk_coverage, set_sizes, urr and hcc. Files are self-contained.
    Text is black, 7 points and searchable; colour-blind readers can distinguish the colours.

    Args:
        only: Charts, separated by commas; by default all with results.
        width: `column` (85 mm), `page` (175 mm), or millimetres.
        metrics: Metrics of the leaderboard and of estimators, separated by commas.
    """
    drawn = figures(context, only, width, metrics)
    for figure in drawn:
        (context.folder / f"{figure.name}.svg").write_text(figure.svg, encoding="utf-8", newline="\n")
    context.counts["figures"] = len(drawn)
