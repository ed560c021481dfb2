"""A small benchmark that has been run: questions with pictures, answers with every signal, judgements and scores, ready to be exported."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from qualm.registry.sample import GENERATIONS, IMAGES, JUDGEMENTS, SAMPLES
from qualm.runners.contracts.models import ModelContext
from qualm.runners.data.dataset import Variant, read_variants
from qualm.runners.plugins.exports import DatasetCredits, ExportContext, ExportPart
from qualm.runners.plugins.models.recorded import recorded
from qualm.runners.runtime.records import read_table, write_table
from tests.support.data.recordings import png
from tests.support.data.score_files import write_scores

TEXTS = ["a red cube", "=1+1", "NA", 'two\nlines\tand "quotes"', "é 漢 \U0001f600", "007", "", "-", "None", "I don't know"]
"""What tables and readers of tables like to change."""
MADE = datetime(2026, 3, 1, 10, 11, 12, 345678, UTC)
CLEAN = Variant("clean")
BLUR = {"variant": "blur@radius=2.0", "plugin": "blur", "modality": "image", "args": {"radius": 2.0}}
OPTIONS = ["a cat", "a dog", "", 'none, of "these"']


def floats(rng, n):
    return rng.normal(size=n).astype(np.float32).tolist()


def below(rng, n):
    """Log-probabilities."""
    return [-abs(v) for v in floats(rng, n)]


def answer(rng, text, options=0, draw=0):
    n = int(rng.integers(1, 6))
    row = {"draw": draw, "text": text, "token_logprobs": below(rng, n), "token_entropies": [-v for v in below(rng, n)]}
    if draw == 0:
        row |= {f"logprobs_without_{w}": below(rng, n) for w in ("image", "question", "both")}
        row |= {"p_true": float(rng.random()), "p_yes": float(rng.random()), "input_digest": "f" * 64}
    if options:
        row["option_logits"] = (rng.normal(size=options) * 30).tolist()
    return row


def write(folder: Path, n_open=10, n_choice=6, draws=3, variants=("clean",), seed=0, pictures=True) -> Path:
    """Tables as a run leaves them; half of the multiple-choice answers have no text, as recordings have."""
    rng = np.random.default_rng(seed)
    samples, rows, judged = [], [], []
    write_table(folder / "data" / "images" / "00000.parquet", [
        {"image_id": f"p{i}", "image": {"bytes": png((40 * i, 9, 9), side=48), "path": f"p{i}.png"}} for i in range(4)
    ], IMAGES)  # fmt: skip
    for i in range(n_open + n_choice):
        is_open, name = i < n_open, f"id/{i:03d} x"
        samples.append({
            "sample_id": name, "image_id": f"p{i % 4}" if pictures and i != 1 else None, "question": f"What is in part {i}?",
            "references": ["a cube", "cube's"][: 1 + i % 2] if is_open else [], "choices": [] if is_open else OPTIONS, "source": "made/up",
            "answer_index": None if is_open else i % 4, "category": "epistemic/knowledge", "answerable": i != 2, "group": f"p{i % 4}",
            "split": "test", "meta": [("kind", f"k{i % 2}")],
        })  # fmt: skip
        for variant in variants:
            texts = [TEXTS[i % len(TEXTS)] if is_open else None if i % 2 else "B"] + [f"draw {k}" for k in range(1, 1 + draws * is_open)]
            for draw, text in enumerate(texts):
                rows.append({"sample_id": name, "variant": variant, **answer(rng, text, 0 if is_open else 4, draw)})
            if is_open:
                judged.append({"model": "m", "dataset": "d", "sample_id": name, "variant": variant, "draw": 0, "judge": "rules",
                               "rating": [1.0, 0.5, None][i % 3], "parse_ok": True})  # fmt: skip
    write_table(folder / "data" / "samples.parquet", samples, SAMPLES)
    write_table(folder / "generations.parquet", rows, GENERATIONS)
    write_table(folder / "judgements.parquet", judged, JUDGEMENTS)
    score = {"model": "m", "dataset": "d", "variant": "clean", "slice": "all", "low": 0.4, "high": 0.8, "n": n_choice, "n_unscored": 0}
    write_scores(
        folder / "scores.parquet", [{**score, "metric": "accuracy[ours]", "value": 0.625}, {**score, "metric": "ece", "value": None}]
    )
    return folder


def context(source: Path, out: Path, variant: Variant | dict = CLEAN, **more) -> ExportContext:
    out.mkdir(parents=True, exist_ok=True)
    variant = variant if isinstance(variant, Variant) else read_variants([variant])[0]
    part = ExportPart("m", "d", variant, 7, source / "data", source / "generations.parquet")
    return ExportContext(
        folder=out, spec="bench", parts=(part,), time=MADE, title="A benchmark", recipe="qualm: 1\nname: bench\n", revision="abc123",
        decoding={"max_new_tokens": 16}, models={"m": {"plugin": "hf_vlm", "args": {"artifact": "x"}}},
        about={"d": DatasetCredits("Data", "MIT", "@misc{d, title={D}}", "https://example.org")},
        tables={name: source / f"{name}.parquet" for name in ("judgements", "scores")}, higher_is_better={"accuracy": True, "ece": False},
        **more,
    )  # fmt: skip


def read_back(out: Path, source: Path, lacking: int = 0, **args) -> list[dict]:
    """The rows of GENERATIONS that the `recorded` model makes of an export, which lacks so many samples."""
    model = recorded(ModelContext("m", folder=out), source="elsewhere", **args)
    found = model.lookup("d", read_table(source / "data" / "samples.parquet", SAMPLES))
    assert [f.reason for f in model.left_out if not f.harmless] == ["sample without an answer"] * lacking
    return found.to_pylist()


def generations(source: Path, draws: bool = True) -> list[dict]:
    rows = read_table(source / "generations.parquet", GENERATIONS).to_pylist()
    return [row for row in rows if row["variant"] == "clean" and (draws or row["draw"] == 0)]


def bits(value):
    """A value as bits are compared: NaN equals NaN, and 0.0 is not -0.0."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, list):
        return [bits(v) for v in value]
    return {k: bits(v) for k, v in value.items()} if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("bench"))


def same_bytes(export: Callable[..., None], ran: Path, folder: Path, **args) -> None:
    """Two exports of one benchmark are the same files."""
    for name in ("a", "b"):
        export(context(ran, folder / name), **args)
    files = sorted(p.relative_to(folder / "a") for p in (folder / "a").rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(folder / "b") for p in (folder / "b").rglob("*") if p.is_file())
    for file in files:
        assert (folder / "a" / file).read_bytes() == (folder / "b" / file).read_bytes(), file
