"""A small folder of results in the project's schemas, made up with NumPy: what the stages before the report would leave."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageDraw

from qualm.registry.sample import CONFORMAL_THRESHOLDS, GENERATIONS, IMAGES, JUDGEMENTS, LABELLED_SCORES, SAMPLES, UNCERTAINTIES
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from tests.support.data.score_files import write_scores

COLOURS = ("red", "green", "blue", "gray", "purple", "cyan")
PROVENANCE = {"stage": "small/score", "seed": 7, "libraries": {"python": "3.11.9", "torch": "2.13.0"}}


class Fabric:
    """Writes the tables of one made-up spec beneath `root` and gives the report stage over them."""

    def __init__(
        self,
        root: Path,
        models: tuple[str, ...] = ("large", "small"),
        datasets: tuple[str, ...] = ("choice", "open"),
        n: int = 120,
        question: Callable[[int], str] = lambda i: f"What color is object {i}?",
        answer: Callable[[int], str] = lambda i: COLOURS[i % 6],
        name: str = "small",
        images: bool = True,
        judge: bool = True,
        settings: tuple[str, ...] = ("ours",),
    ) -> None:
        self.root, self.models, self.datasets, self.n = root, models, datasets, n
        self.question, self.answer, self.name, self.images, self.judge, self.settings = question, answer, name, images, judge, settings
        self.rng = np.random.default_rng(3)
        self.scores: list[dict[str, Any]] = []
        self.inputs: dict[str, Any] = {"datasets": {}, "generations": {m: {} for m in models}}
        self.judgements: list[dict[str, Any]] = []
        self.uncertainties: list[dict[str, Any]] = []
        self.csv: dict[str, list[dict[str, Any]]] = {"reliability": [], "risk_coverage": [], "set_sizes": []}
        self._plot_columns = {
            "reliability": ["model", "dataset", "setting", "bin_low", "bin_high", "confidence", "accuracy", "n"],
            "risk_coverage": ["model", "dataset", "coverage", "risk"],
            "set_sizes": ["model", "dataset", "setting", "score", "size", "count"],
        }
        for dataset in datasets:
            self._dataset(dataset)
        for place, model in enumerate(models):
            for dataset in datasets:
                self._generations(model, dataset, 0.9 - 0.15 * (place % 4))

    def is_choice(self, dataset: str) -> bool:
        return dataset.startswith("choice")

    def _dataset(self, dataset: str) -> None:
        folder = self.root / "data" / dataset
        choice = self.is_choice(dataset)
        rows = [
            {
                "sample_id": f"{dataset}-{i}",
                "image_id": f"image-{i % 20}" if self.images else None,
                "question": self.question(i),
                "references": [] if choice else [self.answer(i)],
                "choices": [self.answer(i + k) for k in range(6)] if choice else [],
                "answer_index": 0 if choice else None,
                "category": ("attribute", "counting", "relation")[i % 3],
                "answerable": True,
                "split": "test",
                "source": "made-up",
                "group": f"image-{i % 20}",
                "meta": {},
            }
            for i in range(self.n)
        ]
        write_table(folder / "samples.parquet", rows, SAMPLES)
        if self.images:
            pictures = [{"image_id": f"image-{i}", "image": {"bytes": picture(i), "path": f"{i}.png"}} for i in range(20)]
            write_table(folder / "images" / "00000.parquet", pictures, IMAGES)
        self.inputs["datasets"][dataset] = str(folder)

    def _generations(self, model: str, dataset: str, skill: float) -> None:
        choice, rng, rows = self.is_choice(dataset), self.rng, []
        for i in range(self.n):
            for variant in ("clean", "blur@radius=2.0", "blur@radius=10.0"):
                hard = {"clean": 0.0, "blur@radius=2.0": 0.1, "blur@radius=10.0": 0.3}[variant]
                right = bool(rng.random() < skill - hard)
                sure = float(np.clip(rng.beta(6, 2) if right else rng.beta(3, 2), 0.01, 0.999))
                row: dict[str, Any] = {"sample_id": f"{dataset}-{i}", "variant": variant, "draw": 0, "input_digest": "0" * 16}
                if choice:
                    logits = rng.normal(0, 0.4, 6)
                    logits[0 if right else 1] += 1 + 5 * sure
                    row |= {"text": "A", "option_logits": logits.tolist()}
                else:
                    row |= {"text": self.answer(i) if right else self.answer(i + 1), "token_logprobs": [float(np.log(sure)) / 2] * 2}
                    rating = None if i % 29 == 5 else float(right)
                    base = {"model": model, "dataset": dataset, "sample_id": row["sample_id"], "variant": variant, "draw": 0}
                    self.judgements.append(base | {"judge": "rules", "rating": rating, "parse_ok": True})
                rows.append(row)
                if variant == "clean":
                    key = {"model": model, "dataset": dataset, "sample_id": row["sample_id"], "variant": variant}
                    for estimator in ("perplexity", "mean_token_entropy"):
                        value = None if i % 37 == 1 else 1.4 - sure + float(rng.normal(0, 0.05))
                        self.uncertainties.append(key | {"estimator": estimator, "value": value})
        path = self.root / "generations" / model / f"{dataset}.parquet"
        write_table(path, rows, GENERATIONS, PROVENANCE)
        self.inputs["generations"][model][dataset] = str(path)
        self._score(model, dataset, skill)

    def _score(self, model: str, dataset: str, skill: float) -> None:
        rng, choice = self.rng, self.is_choice(dataset)
        settings = self.settings if choice else ()

        def add(variant: str, part: str, metric: str, value: float | None, n: int = self.n, unscored: int = 0) -> None:
            low, high = (None, None) if value is None else (value - 0.04, value + 0.04)
            row = {"model": model, "dataset": dataset, "variant": variant, "slice": part, "metric": metric}
            self.scores.append(row | {"value": value, "low": low, "high": high, "n": n, "n_unscored": unscored})

        for variant, loss in (("clean", 0.0), ("blur@radius=2.0", 0.1), ("blur@radius=10.0", 0.3)):
            for part, gain in (("all", 0.0), ("category=attribute", 0.05), ("category=counting", -0.1), ("category=relation", 0.02)):
                if variant != "clean" and part != "all":
                    continue
                accuracy = skill - loss + gain
                for setting in settings or ("",):
                    inside = f"[{setting}]" if setting else ""
                    n = self.n // 2 if setting else self.n
                    add(variant, part, f"accuracy{inside}", accuracy, n)
                    add(variant, part, f"ece{inside}", 0.1 * (1 - accuracy), n)
                    for score, size in (("lac", 1.6), ("aps", 2.4), ("mean", 2.0)) if setting else ():
                        add(variant, part, f"coverage[{setting}/{score}]", 0.9 + 0.01 * float(rng.random()), n)
                        add(variant, part, f"set_size[{setting}/{score}]", size + 1 - accuracy, n)
                for estimator in ("perplexity", "mean_token_entropy"):
                    add(variant, part, f"auroc[{estimator}]", 0.5 + accuracy / 3)
        add("clean", "category=empty", f"accuracy[{settings[0]}]" if settings else "accuracy", None, 0)
        add("clean", "all", "brier", None, 0, self.n)
        self.scores[-1]["why"] = "no answer was judged"
        for low in np.linspace(0, 0.9, 10).round(1).tolist():
            values = {"bin_low": low, "bin_high": round(low + 0.1, 1), "confidence": low + 0.05, "accuracy": max(0.0, low - 0.04)}
            row = {"model": model, "dataset": dataset, "setting": settings[0] if settings else None}
            self.csv["reliability"].append(row | values | {"n": int(100 * low)})
        for coverage in np.linspace(0.05, 1, 40).tolist():
            self.csv["risk_coverage"].append(
                {"model": model, "dataset": dataset, "coverage": coverage, "risk": (1 - skill) * coverage**1.4}
            )
        for setting in settings:
            for score in ("lac", "aps"):
                for size in range(1, 7):
                    row = {"model": model, "dataset": dataset, "setting": setting, "score": score, "size": size}
                    self.csv["set_sizes"].append(row | {"count": int(60 / size)})

    def stage(self, **params: Any) -> Stage:
        """Write what has gathered and give the stage; keyword arguments go into its parameters."""
        if self.judge and self.judgements:
            self._table("judgements", self.judgements, JUDGEMENTS)
        self._table("scores", self.scores, LABELLED_SCORES)
        self._table("uncertainties", self.uncertainties, UNCERTAINTIES)
        thresholds = [
            {
                "model": m,
                "dataset": d,
                "setting": s,
                "score": c,
                "alpha": 0.1,
                "threshold": 0.8,
                "n_calibration": 60,
                "n_test": 60,
                "n_empty": 2,
            }
            for m in self.models
            for d in self.datasets
            if self.is_choice(d)
            for s in self.settings
            for c in ("lac", "aps")
        ]
        self._table("thresholds", thresholds, CONFORMAL_THRESHOLDS)
        for name, rows in self.csv.items():
            path = self.root / "plots" / f"{name}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            pl.DataFrame(rows, schema=self._plot_columns[name] if not rows else None, infer_schema_length=None).write_csv(path)
            self.inputs[name] = str(path)
        given = {"title": "A small benchmark", "description": "Made-up numbers.", "about": {}, "published": None, "examples": 12}
        given |= {"judge": "rules", "confidence": "sequence"}
        given |= {"spec_sha256": "ab" * 32} | params
        output = {"report": str(self.root / "report.html")}
        return Stage("small/report", "small", "report", "report", given, self.inputs, output, 7, Settings())

    def _table(self, name: str, rows: list[dict[str, Any]], schema: Any) -> None:
        path = self.root / f"{name}.parquet"
        if schema is LABELLED_SCORES:
            write_scores(path, rows, PROVENANCE)
        else:
            write_table(path, rows, schema, PROVENANCE)
        self.inputs[name] = str(path)


@cache
def picture(i: int) -> bytes:
    """A plain scene: a few shapes on a soft ground."""
    rng = np.random.default_rng(i)
    image = Image.new("RGB", (160, 120), (226, 222, 214))
    pen = ImageDraw.Draw(image)
    for _ in range(4):
        x, y, r = (int(v) for v in rng.integers((10, 20, 10), (120, 80, 26)))
        colour = tuple(int(c) for c in rng.integers(40, 220, 3))
        (pen.ellipse if rng.random() < 0.5 else pen.rectangle)((x, y, x + r, y + r), fill=colour)
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


@pytest.fixture
def fabricate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fabric]:
    """`fabricate(models=..., ...)` gives a Fabric in the test's own folder, which becomes the working directory."""
    monkeypatch.chdir(tmp_path)
    return lambda **options: Fabric(tmp_path, **options)
