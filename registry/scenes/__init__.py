"""Synthetic scenes of coloured solids on a table.

`world` draws scene graphs in CLEVR's JSON format, `render` draws the image of a graph, `questions` writes questions whose answers follow
from the graph. Each is a pure function of its arguments and a seed.
"""
