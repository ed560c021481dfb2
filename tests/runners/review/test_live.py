"""What a model writes or looks for, made one sample at a time: the same as the benchmark's own stage makes of whole datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qualm.registry.plugins.registry import get
from qualm.registry.sample import SAMPLES
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.plugins.perturbations.clip_mask import Clip, relevance_mask
from qualm.runners.review.bench import AdjustablePerturbation, Bench, open_dataset
from qualm.runners.review.knobs import numeric_knobs
from qualm.runners.review.live import VARIANTS, Workshop
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import perturb
from tests.support.data.scenes_folder import scenes_folder
from tests.support.models.tiny_clip import tiny_clip
from tests.support.projects.tiny_project import write_dataset

SETTINGS = Settings(device="cpu", workers=1, progress=False)


def bench(name: str, folder: Path, args: dict, label: str) -> Bench:
    plugin = get("perturbations", name)
    dataset = open_dataset("scenes", folder, None, str(plugin.declares["MODALITY"]), 8, 7)
    return Bench(dataset, AdjustablePerturbation(plugin, args, lambda args: label.format(**args), Workshop(dataset, SETTINGS, 7)), 7)


def test_a_mask_follows_its_strength(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_dataset(tmp_path / "data", 8, choices=False)
    clip = tiny_clip(tmp_path / "clip")
    args = {"artifact": str(clip), "strength": 1.0, "relevance": "class_attention", "layer": -2}
    masked = bench("clip_mask", tmp_path / "data", args, "clip_mask@strength={strength:g}")
    assert [k.name for k in numeric_knobs(masked.subject.plugin, args)] == ["strength"]
    original, question = masked.item(0, None) or (None, "")
    assert original is not None
    where = relevance_mask(Clip(clip, "cpu").relevance(original, question, "class_attention", -2), original.size)
    for strength in (0.0, 0.3, 1.0):
        made = masked.item(0, {"strength": strength})
        assert made is not None and made[0] is not None and made[1] == question
        wanted = np.rint(np.asarray(original) * (1 - strength * where[..., None]))
        assert (np.asarray(made[0]) == wanted).all()
    workshop = masked.subject.workshop
    assert workshop is not None and len(workshop.context.lasting) == 1  # opened once for all strengths
    for strength in np.linspace(0, 1, 12):
        masked.item(1, {"strength": float(strength)})
    assert len(workshop._variants) == VARIANTS


def test_a_question_is_rewritten_as_the_stage_rewrites_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = scenes_folder(tmp_path, test=30)
    for name in ("inv", "amb"):
        plugin = get("perturbations", name)
        args = {p.name: p.default for p in plugin.parameters} | {"generator": {"plugin": "rules", "args": {"refusals": "all"}}}
        looked = bench(name, folder, args, name)
        params = {"variant": name, "plugin": name, "modality": plugin.declares["MODALITY"], "args": args}
        inputs = {"datasets": {"scenes": "results/s/data/scenes"}, "cards": {"scenes": "results/s/data/scenes.md"}}
        outputs = {"perturbed": {"scenes": f"made/{name}"}, "cards": {"scenes": f"made/{name}.md"}}
        perturb.run(Stage("s/p", "s", "p", "perturb", params, inputs, outputs, 7, SETTINGS))
        stage = {r["sample_id"]: r["question"] for r in read_table(Path("made") / name / "samples.parquet", SAMPLES).to_pylist()}
        live = {s["sample_id"]: looked.item(i, {}) for i, s in enumerate(looked.dataset.samples)}
        assert {s: made and made[1] for s, made in live.items()} == {s: stage.get(s) for s in live}
        assert numeric_knobs(plugin, args) == []
        original = {s["sample_id"]: s["question"] for s in DatasetFolder("scenes", folder).samples}
        assert any(made is not None and made[1] != original[s] for s, made in live.items())


def test_what_cannot_be_made_names_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_dataset(tmp_path / "data", 2, choices=False)
    args = {"artifact": str(tmp_path), "strength": 1.0, "relevance": "class_attention", "layer": -2}
    with pytest.raises(StageError, match=r"variant m: sample 's000[01]': perturbation clip_mask: .* expected config\.json"):
        bench("clip_mask", tmp_path / "data", args, "m").item(0, {"strength": 1.0})


def test_samples_that_were_looked_at_last_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("qualm.runners.review.live.ITEMS", 2)
    write_dataset(tmp_path / "data", 4, choices=False)
    dataset = open_dataset("scenes", tmp_path / "data", None, "text", 4, 7)
    plugin, made = get("perturbations", "inv"), list[int]()
    live = Workshop(dataset, SETTINGS, 7).variant(plugin, {p.name: p.default for p in plugin.parameters}, "inv")
    monkeypatch.setattr(live, "_make", lambda found, row, item: made.append(row) or item)
    for row in (0, 1, 0, 2, 0, 1, 1):
        assert live.item(dataset, row).sample_id == dataset.samples[row]["sample_id"]  # type: ignore[union-attr]
    assert made == [0, 1, 2, 1]
