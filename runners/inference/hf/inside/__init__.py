"""Watching what passes through a network: hidden states of layers, and the attention of answers."""
