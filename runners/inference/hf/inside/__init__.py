"""Hidden states and attention of a network."""
