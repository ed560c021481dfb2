"""The command's side of what people decide: `qualm verify`, and how `qualm calibrate` searches (`qualm.runners.tools` has the pages)."""
