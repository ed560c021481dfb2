"""Turn a resolved spec into a plan: `make.py` assembles the stages; those of answers and scores are in `answers.py` and `scores.py`."""
