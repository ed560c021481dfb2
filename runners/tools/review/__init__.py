"""Handing questions of a pair set to people, and keeping what they say. `qualm verify` puts a terminal or a page over it."""
