"""Pages and terminal dialogues of `qualm verify` (questions) and `qualm strength` (strengths of perturbations)."""
