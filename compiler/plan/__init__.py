"""Turn a resolved spec into a plan: `make.py` assembles the stages of `data.py`, `models.py`, `answers.py` and `scores.py`."""
