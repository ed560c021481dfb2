"""Numbers and texts of our own engine, as `tests/golden/*.json` keep them: what holds its versions to what it computes.

`python -m tests.support.checks.golden_numbers` writes the files anew, and refuses where a number moved under an unchanged version
(`registry/plugins/engine_versions.py`). Models compute in double precision, so that no machine moves a number beyond the tolerance.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

from qualm.registry.plugins import engine_versions
from qualm.registry.plugins.engine_versions import VERSIONS
from qualm.registry.plugins.registry import get, load, names
from qualm.registry.scenes.contrast import CATEGORIES
from qualm.registry.scenes.questions import KINDS, ask
from qualm.registry.scenes.render import render
from qualm.registry.scenes.world import make_scene
from qualm.runners.contracts.generators import ChatRequest, GeneratorContext, chat
from qualm.runners.contracts.judges import Judgement
from qualm.runners.contracts.models import Decoding, ModelContext, Part, Request, draw_of, round_part
from qualm.runners.contracts.nli import NliContext
from qualm.runners.contracts.perturbations import PerturbContext, random_generator
from qualm.runners.prompts.question import messages
from qualm.runners.runtime.libraries import library_versions, series
from qualm.runners.runtime.settings import Settings
from tests.support.checks.golden_stages import adapters, asked, training
from tests.support.checks.perturbation_checks import picture
from tests.support.checks.rewriting import context as rewriting_context
from tests.support.checks.rewriting import rows
from tests.support.data.targets import context as pair_context
from tests.support.data.targets import hole, job, noise, scene_and_picture, wanted
from tests.support.models.tiny_clip import tiny_clip
from tests.support.models.tiny_models import FAMILIES, TEMPLATES, tiny_llm
from tests.support.models.tiny_nli import nli_model

FOLDER = Path(__file__).parents[2] / "golden"
SETTINGS = Settings(device="cpu", batch_size=8, progress=False, workers=1)
SIGNALS = (
    "without_image", "without_question", "without_both", "image_divergence", "uniform_divergence", "p_true",
    "p_true_sampling", "p_yes", "said_confidence",
)  # fmt: skip
INTERNALS = ("hidden_states/0.5/prompt_last", "hidden_states/-1/answer_mean", "hidden_states/1/answer_last 2")
LOOKED = (
    "hidden_states/0.5/image_last", "hidden_states/0/image_mean", "attention/middle_third/previous", "attention/all/image_share",
    "attention/all/image_entropy", "image_information/all/0.5",
)  # fmt: skip
"""Of models that say which tokens are an image's; PaliGemma cannot hide any from the rest."""
OF_HEAD_AND_PROMPT = ("evidence/conflict", "evidence/ignorance", "gradient/all/-1")
"""PaliGemma, which reads prompts in both directions, has no gradient."""
SHOWN_UNITS = 4
"""Of a layer, so many are kept: all come by the same way."""
BLIND = ("without_image", "without_both", "image_divergence")
"""Those that ask without a picture, which PaliGemma cannot be."""
TOLERANCE = 2e-5
"""Of a number, relative where it is above 1: what libraries of one series and machines may move it by."""
LEVELS = 1.0
"""Of a picture's level, 0 to 255."""
Numbers = dict[str, Any]


def models(family: str) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Of a model of one family each part of two answers, and of one with options."""
    with tempfile.TemporaryDirectory() as folder:
        place = ModelContext(family, FAMILIES[family](Path(folder)))
        model = load("models", "hf_vlm")(place, dtype="float64", template=TEMPLATES.get(family))
        model.load()
        opened = ["What color is the cube ?", "How many objects are there left of the big red metal sphere ?"]
        parts = ("answer", "draw 1", "draw 2", *(s for s in SIGNALS if family != "paligemma" or s not in BLIND), *INTERNALS, "token_ends 1")
        if model.picture_token is not None:
            parts += LOOKED[: -1 if family == "paligemma" else None]
        parts += OF_HEAD_AND_PROMPT[: -1 if family == "paligemma" else None]
        parts += ("top_logprobs", "top_tokens") if family == "llava" else ()
        asked = [Request(model.render(messages(q)), picture(i), 0, q, parts, stream=i + 7) for i, q in enumerate(opened)]
        for number, answer in enumerate(model.answer(model.encode(asked), Decoding(4, 0.9, 0.9))):
            for part, value in answer.items():
                yield f"{family}/{number}/{part}", behind(part), told(round_part(part, value))
        options = ["red", "blue", "green"]
        chosen = Request(model.render(messages(opened[0], options)), picture(0), 3, opened[0], ("options",))
        (answer,) = model.answer(model.encode([chosen]), Decoding(4))
        yield f"{family}/options", ("options", "answers"), told(round_part("options", answer["options"]))


def behind(part: str) -> tuple[str, ...]:
    """Return the kinds whose versions may have to be raised where a part of an answer moves, the likeliest first."""
    kind = "draw" if draw_of(part) else part.partition("/")[0]
    return tuple(dict.fromkeys((engine_versions.SIGNALS.get(kind, "answers"), "answers")))


def told(part: Part) -> Numbers:
    """A part without what it lacks."""
    own = {name: value for name, value in vars(part).items() if value is not None}
    return own if part.states is None else {**own, "states": [round(float(value), 3) for value in part.states[:SHOWN_UNITS]]}


def perturbations() -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Every perturbation of ours at its own defaults: of pictures levels over a grid, of questions the words."""
    questions = ["What color is the red cube?", "How many spheres are there?", "Is the small thing left of the big blue cylinder?"]
    images = [picture(i, size) for i, size in enumerate([(40, 30), (33, 57), (3, 5)])]
    for name in names("perturbations"):
        plugin = get("perturbations", name)
        modality = plugin.declares["MODALITY"]
        rngs = [random_generator(7, name, f"s{i}") for i in range(3)]
        batch: list[Any] = {"image": images, "text": questions, "cross": list(zip(images, questions, strict=True))}[modality]
        function = load("perturbations", name)
        if name == "clip_mask":
            with tempfile.TemporaryDirectory() as folder, chdir(folder):
                made = function(PerturbContext(SETTINGS, 7, "v"), batch, rngs, artifact=str(tiny_clip(Path(folder) / "clip")))
        elif "context" in plugin.reads:
            made = function(rewriting_context(rows(questions)), batch, rngs)
        else:
            made = function(batch, rngs)
        for number, one in enumerate(made):
            pair = one if isinstance(one, tuple) else (one,)
            yield f"{name}/{number}", ("variants",), [levels(x) if isinstance(x, PIL.Image.Image) else x for x in pair]


def levels(image: PIL.Image.Image) -> Numbers:
    """Mean and spread of each channel, and levels at the points of a coarse grid."""
    array = np.asarray(image.convert("RGB"), float)
    high, wide = (np.linspace(0, n - 1, 4).round().astype(int) for n in array.shape[:2])
    return {
        "size": list(image.size),
        "mean": array.mean((0, 1)).round(2).tolist(),
        "spread": array.std((0, 1)).round(2).tolist(),
        "levels": array[np.ix_(high, wide)].astype(int).reshape(-1).tolist(),
    }


def writers() -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Text generators, NLI, scenes, masks, inpainters and the judges that ask nobody."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        engine = load("generators", "hf")(GeneratorContext(SETTINGS), artifact=str(tiny_llm(Path(folder) / "llm")), dtype="float64")
        requests = [ChatRequest(tuple(chat(q)), 6, t, i) for i, q in enumerate(["Why?", "What is in the picture?"]) for t in (0.0, 1.0)]
        replies = dict(reply for batch in engine.answer(requests) for reply in batch)
        for i in range(len(requests)):
            yield f"generators/hf/{i}", ("replies",), [replies[i].text, replies[i].finish]
        for kind in ("deberta-v2", "roberta"):
            context = NliContext(SETTINGS, Counter())
            nli = load("nli", "hf")(context, artifact=str(nli_model(Path(folder) / kind, kind)), dtype="float64")
            pairs = [("red", "a red cube"), ("two large metal spheres", "no")]
            logits = dict(pair for batch in nli.infer(pairs) for pair in batch)
            yield f"nli/hf/{kind}", ("entailment",), [[float(x) for x in logits[i]] for i in range(2)]
    rules = load("generators", "rules")(GeneratorContext(SETTINGS))
    for level in ("easy", "hard"):
        scene = make_scene(5, level, "test", 0)
        yield f"scenes/{level}/picture", ("datasets",), levels(PIL.Image.fromarray(render(scene)))
        asked = [ask(np.random.default_rng(3), scene, kind) for kind in KINDS]
        yield f"scenes/{level}/questions", ("datasets",), [question and [question.text, question.answer] for question in asked]
        for category in CATEGORIES:
            if category != "extraneous":
                pair = rules.compose(scene, category, np.random.default_rng(1))
                words = pair and [pair.answerable.text, pair.answerable.answer, pair.unanswerable.text]
                yield f"generators/rules/{level}/{category}", ("replies", "datasets"), words
    yield from painting()
    yield from judges()


def painting() -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """What is cut out of a picture, and what is put there."""
    scene, shown = scene_and_picture()
    given = wanted(shown, objects=[0], boxes=[(5, 6, 9, 8)], scene=scene)
    for name in ("boxes", "scene_graph"):
        (mask,) = load("masks", name)(pair_context())([given])
        place = [int(edge) for axis in np.nonzero(mask) for edge in (axis.min(), axis.max())]
        yield f"masks/{name}", ("pairs",), [int(mask.sum()), *place]
    for name in ("telea", "navier_stokes"):
        (made,) = load("inpainters", name)(pair_context())([job(noise(30, 24), hole(30, 24))])
        yield f"inpainters/{name}", ("pairs",), levels(made)
    removed = job(shown, hole(*shown.size), scene, objects=[0])
    (made,) = load("inpainters", "rerender")(pair_context())([removed])
    value = levels(made) if isinstance(made, PIL.Image.Image) else str(made)
    yield "inpainters/rerender", ("pairs",), value


def judges() -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Ratings of some answers by every judge that reads no more than question, references and prediction."""
    answers = ["red", "a red one", "I don't know", "blue", "Yes.", "no, it is not", "2", ""]
    references = [["red"], ["red", "dark red"], [], ["unanswerable"] * 3, ["yes"], ["no"], ["two"], ["red"]]
    for name in names("judges"):
        function = load("judges", name)
        required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        if [p.name for p in required] != ["questions", "references", "predictions"]:
            continue
        made = function(["Is it red?"] * len(answers), references, answers)
        yield f"judges/{name}", ("judgements",), [_judged(one) for one in made]


def _judged(one: Judgement) -> list[Any]:
    return [one.rating, one.pred_is_idk, one.parse_ok, dict(one.marks)]


GROUPS: Mapping[str, Callable[[], Iterator[tuple[str, tuple[str, ...], Any]]]] = {
    **{f"models/{family}": partial(models, family) for family in FAMILIES},
    "perturbations": perturbations,
    "writers": writers,
    "training": training,
    "adapters": adapters,
    "asked": asked,
}
"""What is computed together; a group's file is named by what stands before the `/`."""


def computed(group: str) -> Numbers:
    """What its golden file would hold of a group now."""
    made = {name: {"versions": {kind: VERSIONS[kind] for kind in kinds}, "value": value} for name, kinds, value in GROUPS[group]()}
    return {"libraries": {n: series(n, v) for n, v in library_versions().items()}, "numbers": json.loads(json.dumps(made))}


def kept(group: str) -> Numbers:
    """What its golden file holds of a group; nothing where it is not written yet."""
    file, _, family = group.partition("/")
    path = FOLDER / f"{file}.json"
    if not path.is_file():
        return {"libraries": {}, "numbers": {}}
    whole = json.loads(path.read_text(encoding="utf-8"))
    mine = {name: entry for name, entry in whole["numbers"].items() if name.startswith(f"{family}/") or not family}
    return {"libraries": whole["libraries"], "numbers": mine}


def moved(before: Numbers, now: Numbers) -> Iterator[str]:
    """Numbers that moved under versions that did not, each with what to do."""
    for name, entry in before["numbers"].items():
        later = now["numbers"].get(name)
        if later is None or differs(entry["value"], later["value"]):
            raised = [v for v, number in entry["versions"].items() if later is not None and later["versions"].get(v, number) > number]
            if not raised:
                yield f"{name}: {short(entry['value'])} -> {short(later and later['value'])}: raise {' or '.join(entry['versions'])}"


def differs(old: Any, new: Any, tolerance: float = TOLERANCE) -> bool:
    """Whether two values are apart by more than rounding."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        wide = LEVELS if "levels" in old else tolerance
        return old.keys() != new.keys() or any(differs(old[key], new[key], wide) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) != len(new) or any(differs(a, b, tolerance) for a, b in zip(old, new, strict=True))
    if isinstance(old, float) or isinstance(new, float) or tolerance == LEVELS:
        numbers = isinstance(old, int | float) and isinstance(new, int | float)
        return not (numbers and math.isclose(old, new, rel_tol=0 if tolerance == LEVELS else tolerance, abs_tol=tolerance))
    return bool(old != new)


def short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}..."


def main() -> int:
    import torch

    torch.set_num_threads(1)
    files: dict[str, Numbers] = {}
    for group in GROUPS:
        before, now = kept(group), computed(group)
        if before["libraries"] == now["libraries"] and (faults := list(moved(before, now))):
            print(*faults, sep="\n", file=sys.stderr)
            print("nothing written: raise these versions in registry/plugins/engine_versions.py, then run this again", file=sys.stderr)
            return 1
        whole = files.setdefault(group.partition("/")[0], {"libraries": now["libraries"], "numbers": {}})
        whole["numbers"] |= now["numbers"]
    for file, now in files.items():
        lines = (f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in now["numbers"].items())
        text = f'{{"libraries": {json.dumps(now["libraries"])},\n"numbers": {{\n' + ",\n".join(lines) + "\n}}\n"
        (FOLDER / f"{file}.json").write_text(text, encoding="utf-8")
        print(f"{file}: {len(now['numbers'])} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
