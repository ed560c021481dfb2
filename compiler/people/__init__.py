"""Commands for people's decisions: `qualm verify` and `qualm calibrate` (the pages are in `qualm.runners.tools`)."""
