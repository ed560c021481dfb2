"""Resolve the sections of a spec and check them against each other: a module for each, `reader.py` for all."""
