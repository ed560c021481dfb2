"""Pages and terminal dialogues of `qualm verify` (questions of a dataset or pair set) and `qualm calibrate` (strength of a perturbation)."""
