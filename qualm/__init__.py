"""Qualm: benchmarks of what vision-language models know that they do not know, compiled to DVC pipelines.

`qualm.compiler` turns specs into pipelines, `qualm.registry` says which data there are, `qualm.runners` runs stages. In the repository
these are links to the folders at its top level; an installed package holds the files themselves.
"""

__version__ = "0.1.0"
