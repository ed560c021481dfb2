"""The sections of a spec, spelled out and held to each other: a module for each, `reader.py` what they share."""
