"""Review questions of a dataset or pair set; `qualm verify` shows them in a terminal or on a page."""
