"""Names of colours in charts; the report's style and the palette for print define them."""

INK, MUTED, GRID, PAPER = "var(--ink)", "var(--muted)", "var(--grid)", "var(--paper)"
RIGHT, WRONG, ACCENT = "var(--right)", "var(--wrong)", "var(--accent)"
SERIES = tuple(f"var(--c{i})" for i in range(8))
"""Colours of models, in the order of the score table; more than eight models share one colour."""
OVER, UNDER = WRONG, "var(--c5)"
"""Colours for confidence above and below accuracy."""
