"""Choose the strength of a perturbation, by a search for an effect or by people; used by `qualm calibrate`."""
