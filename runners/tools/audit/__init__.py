"""`qualm cache audit`: compute a random part of the stored answers again, and compare."""
