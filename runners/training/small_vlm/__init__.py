"""The parts of a small LLaVA-style model that is trained from nothing on made-up scenes: words, networks, data."""
