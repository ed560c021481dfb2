"""Choosing the strength of a perturbation: by a search for a stated effect, or by people who look. `qualm calibrate` drives it."""
