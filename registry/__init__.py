"""Which data: the vocabulary of samples, the plugin rule, cards, adapters."""

CLEAN = "clean"
"""The variant of a sample that no perturbation has touched."""

GREEDY = 0
"""The draw of the greedy answer; sampled answers are draws 1..N."""
