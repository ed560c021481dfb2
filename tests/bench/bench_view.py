"""`qualm view` on 200,000 answers: CPU seconds to publish, and milliseconds in a browser to the first rows, a filter, a search, a question.

`python tests/bench/bench_view.py [ANSWERS]`; the results are made up, two models on 100,000 questions without a score stage.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2]))

from qualm.compiler.viewing.publish import publish
from qualm.compiler.viewing.site import Site, SitePart
from tests.support.processes.chromium import Chromium

MODELS = ("base", "tuned")
KINDS = [f"kind/{i}" for i in range(30)]


def made_up(root: Path, n: int) -> Any:
    """What `Results` gives, of `n` answers."""
    rng = np.random.default_rng(0)
    ids = [f"sample-{i:06d}" for i in range(n // 2)]
    questions = [f"What is the colour of thing number {i} that stands left of the {KINDS[i % 30]}?" for i in range(n // 2)]
    samples = pl.DataFrame({"sample_id": ids, "question": questions, "category": [KINDS[i % 30] for i in range(n // 2)]}).with_columns(
        image_id=pl.lit(None, pl.String), references=pl.lit(["red"]), choices=pl.lit([], pl.List(pl.String)), answer_index=pl.lit(None, pl.Int16),  # noqa: E501
        answerable=pl.lit(True), split=pl.lit("test"), source=pl.lit("made up"), group=pl.col("sample_id"), pair_id=pl.lit(None, pl.String),
    )  # fmt: skip
    folder = root / "data"
    folder.mkdir()
    samples.write_parquet(folder / "samples.parquet")
    parts = []
    for model in MODELS:
        right = rng.random(n // 2) < 0.7
        texts = np.where(right, "It is red, as far as I can see.", "It is blue, since the light is blue.")
        said = pl.DataFrame({"sample_id": ids, "variant": "clean", "draw": 0, "text": texts})
        said = said.with_columns(draw=pl.col("draw").cast(pl.Int16), token_logprobs=pl.lit([-0.1] * 9, pl.List(pl.Float32)))
        said.write_parquet(root / f"{model}.parquet", compression="zstd")
        own = {f"uncertainty[e{i}]": rng.random(n // 2) for i in range(6)}
        columns = {"correct": right.astype(float), "confidence": rng.random(n // 2), **own}
        parts.append(
            samples.with_columns(model=pl.lit(model), dataset=pl.lit("many"), variant=pl.lit("clean"), text=said["text"]).with_columns(
                **{name: pl.Series(values) for name, values in columns.items()}
            )
        )
    answers = pl.concat(parts)
    scores = pl.DataFrame(
        [
            {"model": m, "dataset": "many", "variant": "clean", "slice": "all", "label": "accuracy", "metric": "accuracy", "value": 0.7}
            for m in MODELS
        ]
    ).with_columns(
        low=pl.lit(0.69), high=pl.lit(0.71), n=pl.lit(n // 2), n_unscored=pl.lit(0), level=pl.lit(0.95), higher_is_better=pl.lit(True)
    )
    empty = [
        pl.lit(None, pl.String).alias(c)
        for c in ("estimator", "conformal", "nonconformity", "calibrator", "parameters", "why", "why_no_interval", "collapsed")
    ]
    gone = [pl.lit(None, pl.Float64).alias(c) for c in ("target", "band_low", "band_high")]
    return SimpleNamespace(
        spec="many", root=root, models=list(MODELS), datasets=["many"], tables=[], scores=scores.with_columns(*empty, *gone),
        inputs={"datasets": {"many": "data"}, "generations": {m: {"many": f"{m}.parquet"} for m in MODELS}},
        samples=lambda name: samples, answers=lambda variant: answers,
    )  # fmt: skip


def main(n: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        site = Site([SitePart(made_up(root, n), ())], "Many answers", "none")
        start = time.process_time()
        size = publish(site, root / "site")
        print(f"publish: {n:,} answers, {time.process_time() - start:.1f} s of CPU, {size / 1e6:.1f} MB")
        page = (root / "site" / "index.html").as_uri()
        with Chromium(root / "browser") as browser:
            timed(browser, "first rows", page, "#/answers/many?variant=clean", "document.querySelector('.row .said bdi')")
            timed(
                browser,
                "a filter",
                "",
                "#/answers/many?variant=clean&verdict=wrong&model=base&category=kind/3",
                "document.querySelector('.facets a')",
            )
            timed(browser, "a search", "", "#/answers/many?q=number 77777", "document.querySelector('.total b')?.innerText === '2'")
            timed(browser, "a question", "", "#/q/many/many/sample-077777", "document.querySelector('.card')")
            print("complaints:", browser.complaints or "none")


def timed(browser: Chromium, what: str, page: str, hash: str, ready: str) -> None:
    start = time.monotonic()
    if page:
        browser.open(page + hash)
    else:
        browser.run("document.getElementById('main').replaceChildren()")
        browser.run(f"location.hash = {hash!r}")
    browser.until(ready, 120)
    print(f"{what}: {1000 * (time.monotonic() - start):.0f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
