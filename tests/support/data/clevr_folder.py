"""Official CLEVR v1.0 files in small: our scenes with what is ours alone taken away, questions with programs, pictures."""

from __future__ import annotations

import json
from pathlib import Path

from qualm.registry.scenes.questions import ask
from qualm.registry.scenes.render import png
from qualm.registry.scenes.world import make_scene, stream

PROGRAMS = {"color": "query_color", "existence": "exist", "counting": "count", "relation": "exist"}


def official(scene):
    """The scene as CLEVR's release has it."""
    return {key: value for key, value in scene.items() if key != "level"}


def clevr_folder(root: Path, scenes: int = 40, split: str = "val", level: str = "medium") -> Path:
    """A folder as the release unpacks to, with a few questions on each picture."""
    made = [make_scene(3, level, split, i) for i in range(scenes)]
    info = {"date": "2/14/2017", "version": "1.0", "split": split, "license": "CC BY 4.0"}
    (root / "scenes").mkdir(parents=True, exist_ok=True)
    (root / "questions").mkdir(exist_ok=True)
    (root / "images" / split).mkdir(parents=True, exist_ok=True)
    questions = []
    for scene in made:
        (root / "images" / split / scene["image_filename"]).write_bytes(png(scene))
        for kind, function in PROGRAMS.items():
            question = ask(stream(scene["image_index"]), scene, kind)
            if question is None:
                continue
            program = [{"function": "scene", "inputs": [], "value_inputs": []}, {"function": function, "inputs": [0], "value_inputs": []}]
            record = {
                "image_index": scene["image_index"],
                "image_filename": scene["image_filename"],
                "question": question.text,
                "answer": question.answer,
                "program": program,
                "question_family_index": len(kind),
                "question_index": len(questions),
                "split": split,
            }
            questions.append(
                {k: v for k, v in record.items() if split != "test" or k not in ("answer", "program", "question_family_index")}
            )
    if split != "test":
        scenes_file = {"info": info, "scenes": [official(s) for s in made]}
        (root / "scenes" / f"CLEVR_{split}_scenes.json").write_text(json.dumps(scenes_file))
    (root / "questions" / f"CLEVR_{split}_questions.json").write_text(json.dumps({"info": info, "questions": questions}))
    return root
