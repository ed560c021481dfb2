"""Pages and terminal dialogues of `qualm verify` (questions) and `qualm calibrate` (strengths of perturbations)."""
