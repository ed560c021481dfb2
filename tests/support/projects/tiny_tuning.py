"""A `finetune` stage on a small model and small contrastive pairs, to run for real."""

import io
import json
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import PIL.Image

from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, read_stage
from tests.support.processes.forks import Fork, forks
from tests.support.projects.tiny_project import inherited

ROOT = Path(__file__).resolve().parents[3]
COLORS = ["red", "green", "blue", "yellow"]
SHAPES = ["cube", "sphere", "cylinder", "cone"]
REFUSAL = "i know none"
"""Of words that the smallest tokenizer knows."""
BASE = {"plugin": "hf_vlm", "args": {"artifact": "registry/data/tiny", "dtype": "float32"}}
LORA = {"plugin": "lora", "args": {"r": 2, "alpha": 8.0}}
FULL = {"plugin": "full", "args": {}}
SFT = {"base": "base", "train": ["pairs"], "tune": LORA, "batch": 6, "steps": 12, "rate": 0.01, "warmup": 0.1}


def write_pairs(folder: Path, n: int = 12, side: int = 32, choices: int = 3) -> None:
    """n pairs on n pictures, `choices` multiple-choice rows, a row of split test, and one without a reference."""
    pictures, samples = [], []

    def row(name: str, image: int, **more):
        usual = {
            "category": "epistemic/knowledge",
            "answerable": True,
            "split": "train",
            "source": "test",
            "group": f"g{image}",
            "meta": {},
        }
        samples.append({"sample_id": name, "image_id": f"i{image}", "references": [], "choices": [], "pair_id": None, **usual, **more})

    for i in range(n):
        pixels = np.random.default_rng([1, i]).integers(0, 256, (side, side + 8 * (i % 2), 3), dtype=np.uint8)
        data = io.BytesIO()
        PIL.Image.fromarray(pixels).save(data, "PNG")
        pictures.append({"image_id": f"i{i}", "image": {"bytes": data.getvalue(), "path": f"{i}.png"}})
        asked, pair = f"What color is the {'big ' * (i % 3)}{SHAPES[i % 4]} ?", f"p{i:02d}"
        row(f"{pair}-a", i, question=asked, references=[COLORS[i % 4]], pair_id=pair)
        row(f"{pair}-u", i, question=f"{asked} 's given scene ?", references=[REFUSAL], answerable=False, pair_id=pair)
    for i in range(choices):
        row(f"c{i}", i, question="What color is the cube ?", choices=COLORS, answer_index=i)
    row("test", 0, question="What shape is the thing ?", references=["cube"], split="test")
    row("mute", 0, question="What shape is the thing ?")
    write_table(folder / "samples.parquet", samples, SAMPLES)
    write_table(folder / "images" / "00000.parquet", pictures, IMAGES)


def bare_stage() -> Stage:
    """A stage whose counters a test looks at."""
    settings = Settings(device="cpu", progress=False, servers={"default": {"retries": 2, "pause": 0.01}})
    return Stage("t/bare", "t", "bare", "finetune", {"max_new_tokens": 4}, {}, {}, 7, settings)


class Tuning:
    """A project folder with a model, data and a stage."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        (folder / "registry" / "data").mkdir(parents=True)
        (folder / "registry" / "data" / "tiny").symlink_to(model)
        write_pairs(folder / "results/t/data/pairs")

    def stage(self, plugin: str, args: dict, name: str = "tuned", models=None, datasets=("pairs",), folders=None) -> None:
        refs = {"base": BASE} if models is None else models
        params = {"name": name, "plugin": plugin, "args": args, "models": refs, "max_new_tokens": 4}
        places = {"base": "registry/data/tiny", **(folders or {})}
        inputs = {"datasets": {d: f"results/t/data/{d}" for d in datasets}, "models": {n: places[n] for n in refs}}
        outputs = {"model": f"results/t/models/{name}", "log": f"results/t/training/{name}.csv"}
        stage = {"kind": "finetune", "seed": 7, "params": params, "inputs": inputs, "outputs": outputs}
        path = self.folder / f"specs/t/stages/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stage))

    def run(self, name: str = "tuned", **settings):
        """In this process; returns the stage with its counters."""
        import torch

        from qualm.runners.stages import finetune

        torch.set_num_threads(1)
        with chdir(self.folder):
            stage = read_stage(f"t/{name}", Settings(device="cpu", progress=False, **settings))
            finetune.run(stage)
        return stage

    def environment(self, **settings: str) -> dict[str, str]:
        own = {"QUALM_DEVICE": "cpu", "QUALM_PROGRESS": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        return {**inherited(), **own, **settings}

    def start(self, name: str = "tuned", **environment: str) -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, "-m", "qualm.runners", f"t/{name}"]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment(**environment), **pipes)

    def fork(self, name: str = "tuned", **environment: str) -> Fork:
        """As `start`, and at once."""
        return forks().start("qualm.runners", f"t/{name}", folder=self.folder, environment=self.environment(**environment))

    def model(self, name: str = "tuned") -> Path:
        return self.folder / "results/t/models" / name

    def log(self, name: str = "tuned") -> str:
        return (self.folder / f"results/t/training/{name}.csv").read_text()
