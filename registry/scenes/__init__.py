"""Synthetic scenes of coloured solids on a table: sampled, drawn, and asked about.

`world` draws scene graphs in CLEVR's own JSON format, `render` turns such a graph into a picture, `questions` writes
questions whose answers follow from the graph. Each is a pure function of its arguments and a seed.
"""
