"""`qualm cache audit`: a random part of the stored answers, computed again with today's libraries and held against what is stored."""
