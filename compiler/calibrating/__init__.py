"""How `qualm calibrate` finds what it is asked about, and searches or serves it. What it measures is `runners.calibrating`."""
