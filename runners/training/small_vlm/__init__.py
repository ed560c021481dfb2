"""A small LLaVA-style model that is trained from scratch on drawn scenes: words, networks, data."""
