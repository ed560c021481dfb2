"""Scenes as they were: worlds, pictures, questions, captions, signs and damage, held to tests/golden/scenes.json.

Data sets of scenes are made again wherever they are needed, so that another picture or question under the same seed is another data set.
Pictures are held by the mean colours of eight by eight blocks. After a change that is meant, with the adapter's version raised:
python -m tests.registry.scenes.test_golden_scenes
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qualm.registry.scenes import contrast, spoiling, twins
from qualm.registry.scenes.captions import caption
from qualm.registry.scenes.questions import KINDS, OPTION_KINDS, ask
from qualm.registry.scenes.removal import silhouette, traces
from qualm.registry.scenes.render import puddle_in_sight, render, trails_in_sight
from qualm.registry.scenes.world import LEVELS, VALUES, make_scene, stream, visible_shares

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "scenes.json"
QUESTION = "What color is the large metal sphere to the left of the cube?"


def blocks(pixels: Any, n: int = 8) -> list[float]:
    """Mean colours of n by n blocks, row by row."""
    side = len(pixels) // n
    means = np.asarray(pixels[: n * side, : n * side], float).reshape(n, side, n, side, -1).mean(axis=(1, 3))
    return [round(float(mean), 1) for mean in means.flatten()]


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {key: rounded(of) for key, of in value.items()}
    return [rounded(of) for of in value] if isinstance(value, list | tuple) else value


def world(level: str) -> Any:
    made = []
    for index in range(3):
        scene = make_scene(7, level, "test", index)
        shares = [round(float(share), 4) for share in visible_shares(scene["objects"], LEVELS[level])]
        made.append({"objects": rounded(scene["objects"]), "relationships": scene["relationships"], "shares": shares})
    return made


def many(level: str) -> str:
    """Of a hundred scenes, since each rule of where objects may stand decides about few of them."""
    scenes = [make_scene(7, level, "train", index) for index in range(100)]
    told = [[[thing[name] for name in (*VALUES, "3d_coords", "rotation")] for thing in scene["objects"]] for scene in scenes]
    return hashlib.sha256(json.dumps([told, [scene["relationships"] for scene in scenes]]).encode()).hexdigest()


def picture(level: str) -> Any:
    scene = make_scene(7, level, "test", 0)
    sight = (
        {str(i): [*trails_in_sight(scene, i).values(), puddle_in_sight(scene, i)] for i in range(len(scene["objects"]))}
        if level != "hard"
        else {}
    )
    return {"pixels": blocks(render(scene)), "sight": rounded(sight)}


def questions(level: str) -> Any:
    asked = []
    for index in range(4):
        scene = make_scene(7, level, "test", index)
        for several, kinds in ((False, KINDS), (True, OPTION_KINDS)):
            for kind in kinds:
                made = ask(stream(7, kind, index), scene, kind, several)
                asked.append(None if made is None else [made.text, made.answer, list(made.choices), made.answer_index])
        asked.append(caption(scene))
    return asked


def contrasts(level: str) -> Any:
    made = []
    for category in contrast._DRAW:
        for index in range(3):
            scene = make_scene(7, level, "train", index)
            made.append([category, repr(contrast.contrast(stream(7, category, index), scene, category))])
            made.append([category, repr(contrast.answerable(stream(7, category, index), scene, category))])
    return made


def pairs(level: str) -> Any:
    made = []
    for category in ("ambiguity", "extraneous", *twins._SIGNS):
        for index in range(4):
            pair = twins.twins(stream(7, category, index), make_scene(7, level, "val", index), category)
            if pair is not None:
                texts = [pair.asks, *pair.questions, *pair.answers, *pair.proofs]
                made.append([category, index, texts, *([rounded(scene["objects"]), blocks(render(scene))] for scene in pair.scenes)])
                break
    return made


def damage() -> Any:
    scene = make_scene(7, "easy", "test", 1)
    pixels = render(scene)
    seen = {name: blocks(of(pixels, np.random.default_rng(3)), 16) for name, of in spoiling.PICTURES.items()}
    said = {name: [of(QUESTION, np.random.default_rng(seed)) for seed in range(4)] for name, of in spoiling.QUESTIONS.items()}
    gone = [[int(mask.sum()) for mask in (silhouette(scene, [i]), traces(scene, [i]))] for i in range(len(scene["objects"]))]
    return {"pictures": seen, "questions": said, "removed": gone}


HELD = {
    **{f"{of.__name__} {level}": (of, level) for of in (world, many, picture, questions, contrasts) for level in LEVELS},
    "pairs easy": (pairs, "easy"),
    "pairs medium": (pairs, "medium"),
    "damage": (damage,),
}


def computed(name: str) -> Any:
    make, *arguments = HELD[name]
    return json.loads(json.dumps(make(*arguments)))  # type: ignore[operator]


@pytest.mark.parametrize("name", HELD)
def test_a_seed_gives_what_it_gave(name):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert sorted(golden) == sorted(HELD)
    _same(computed(name), golden[name], name)


def _same(now: Any, before: Any, where: str) -> None:
    """Texts to the letter; means of colours to a level of 255, for what lies between two levels may be rounded elsewhere the other way."""
    if isinstance(before, list) and before and all(isinstance(value, float) for value in before):
        assert now == pytest.approx(before, abs=0.3 if len(before) > 100 else 1e-4), where
    elif isinstance(before, list):
        assert len(now) == len(before), where
        for number, (one, other) in enumerate(zip(now, before, strict=True)):
            _same(one, other, f"{where}[{number}]")
    elif isinstance(before, dict):
        assert sorted(now) == sorted(before), where
        for key in before:
            _same(now[key], before[key], f"{where}.{key}")
    else:
        assert now == (pytest.approx(before, abs=1e-4) if isinstance(before, float) else before), where


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(computed(name))}" for name in HELD]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{GOLDEN}: {len(lines)} entries, {GOLDEN.stat().st_size:,} bytes")
