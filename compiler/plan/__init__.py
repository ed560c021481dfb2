"""How a resolved spec becomes a plan: `make.py` makes it, of the stages of `data.py`, `models.py`, `answers.py` and `scores.py`."""
