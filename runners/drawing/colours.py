"""Colours of charts, by name: a page says in its style what they are, and a figure for print has a palette of its own."""

INK, MUTED, GRID, PAPER = "var(--ink)", "var(--muted)", "var(--grid)", "var(--paper)"
RIGHT, WRONG, ACCENT = "var(--right)", "var(--wrong)", "var(--accent)"
SERIES = tuple(f"var(--c{i})" for i in range(8))
"""Colours of models, in the order of the score table; beyond eight, models share one quiet colour."""
OVER, UNDER = WRONG, "var(--c5)"
"""Confidence above accuracy, and below it."""
