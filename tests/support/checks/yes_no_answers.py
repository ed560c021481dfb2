"""AMBER's published counts and formulae written out row by row, as its `metrics.txt` names them: what our columns are held to."""

from pathlib import Path

import numpy as np

METRICS = Path(__file__).resolve().parents[3] / ".." / "shared" / "fixtures" / "amber" / "metrics.txt"
SAID = {"Yes": 1.0, "No": 0.0}


def answers(n=400, seed=0):
    """Answers as AMBER has them ("Yes", "No" and others) and the truths."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n)
    said = np.where(rng.random(n) < 0.8, truth, 1 - truth)
    text = [("Maybe" if rng.random() < 0.1 else ("No", "Yes")[s]) for s in said]
    return text, [("no", "yes")[t] for t in truth]


def columns(text, truth):
    return np.array([SAID.get(t, -1.0) for t in text]), np.array([float(t == "yes") for t in truth])


def amber_by_hand(text, truth, small, start=0.001):
    """Accuracy, precision, recall and F1 in per cent, as the script prints them. `start`: what every divisor begins with."""
    correct = sum((t == "Yes" and g == "yes") or (t == "No" and g == "no") for t, g in zip(text, truth, strict=True))
    said_no = [g for t, g in zip(text, truth, strict=True) if t == "No"]
    hits = said_no.count("no")
    accuracy = round(correct / (len(text) + start) * 100, 1)
    precision = round(hits / (len(said_no) + start) * 100, 1)
    recall = round(hits / (truth.count("no") + start) * 100, 1)
    f1 = round(2 * (precision / 100) * (recall / 100) / (precision / 100 + recall / 100 + small) * 100, 1)
    return accuracy, precision, recall, f1
