"""Golden numbers of what takes more than one call: training, official files, and what is sent to servers and read of their replies.

Each of these gives (name, kinds of answers whose versions may have to be raised, value), as `golden_numbers.GROUPS` has them.
"""

from __future__ import annotations

import csv
import hashlib
import inspect
import io
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import asdict
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterContext
from qualm.registry.plugins.registry import load
from qualm.registry.sample import Sample
from qualm.runners.contracts.generators import chat
from qualm.runners.contracts.judges import JudgeContext
from qualm.runners.contracts.models import Decoding, ModelContext, Request
from qualm.runners.inference.generator import open_generator
from qualm.runners.prompts.question import messages
from qualm.runners.runtime.settings import Settings
from tests.support.checks.perturbation_checks import picture
from tests.support.models.tiny_models import tiny_llava
from tests.support.servers.asked_judge import SETTINGS
from tests.support.servers.small_server import IMPATIENT, serving
from tests.support.servers.toy_server import toy_serving

Entries = Iterator[tuple[str, tuple[str, ...], Any]]
PROMPTS = Path(__file__).parents[3] / "specs" / "prompts"
SHORT = 200
"""Characters that no prompt file begins with."""
RECIPES = ("sft", "rtune", "dpo")
REPLIES: Mapping[str, Mapping[str, str]] = {
    "lave": {"Experts: ": "Rating: 2\nRationale: two of 3.", "": "Rating: 0\nRationale: so it is."},
    "hallusionbench": {"They are.": "incorrect", "a blue one": "it depends", "": "correct"},
    "shr": {"2. ": "Judgement:\n1. correct: so it is\n2. hallucination: it is red", "": "1. cannot judge: a mood"},
}
"""Judge -> what stands in the last words of a request -> what the server says to it, the first that fits."""


def training() -> Entries:
    """Four steps of each recipe: losses, and of every kind of weight that comes out its size and its place in one direction."""
    from tests.support.projects.tiny_tuning import LORA, Tuning

    with tempfile.TemporaryDirectory() as folder:
        model = tiny_llava(Path(folder) / "model")
        for recipe in RECIPES:
            project = Tuning(Path(folder) / recipe, model)
            project.stage(recipe, {"base": "base", "train": ["pairs"], "tune": LORA, "batch": 6, "steps": 4, "rate": 0.01})
            counters = project.run().counters
            rows = list(csv.DictReader(io.StringIO(project.log())))
            losses = [{name: float(value) for name, value in row.items() if value and name != "seconds"} for row in rows]
            yield f"{recipe}/losses", ("training",), losses
            yield f"{recipe}/weights", ("training",), _weights(project.model())
            yield f"{recipe}/counted", ("training",), counters


def _weights(folder: Path) -> dict[str, list[float]]:
    """Of the weights of each kind: how many, their norm, and their sum along a wave that no two places have alike."""
    import torch
    from safetensors.torch import load_file

    kinds: dict[str, list[Any]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in sorted(load_file(file).items()):
            kinds.setdefault(".".join(name.split(".")[-2:]), []).append(tensor.double().flatten())
    every = {kind: torch.cat(tensors) for kind, tensors in kinds.items()}
    waves = {kind: torch.cos(torch.arange(len(flat), dtype=torch.float64) * math.sqrt(2)) for kind, flat in every.items()}
    return {kind: [len(flat), float(flat.norm()), float(flat @ waves[kind])] for kind, flat in sorted(every.items())}


def adapters() -> Entries:
    """What is read of the small official files that the adapters' own tests lay out: counts, the first sample, a digest of all."""
    from tests.support.data.official_layouts import LAYOUTS

    for name, laid_out in sorted(LAYOUTS.items()):
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            official, made = Path(folder) / "official", Path(folder) / "made"
            official.mkdir()
            made.mkdir()
            source, args = laid_out(official)
            items = list(load("datasets", name)(AdapterContext(made, source=source), **args))
        samples = [asdict(item) for item in items if isinstance(item, Sample)]
        images = [item.image_id for item in items if not isinstance(item, Sample)]
        whole = json.dumps([samples, images], sort_keys=True, default=str)
        first = {key: samples[0][key] for key in ("sample_id", "question", "references", "choices", "answer_index", "category")}
        value = {"samples": len(samples), "images": len(images), "first": first, "digest": hashlib.sha256(whole.encode()).hexdigest()[:16]}
        yield name, ("datasets",), value


def asked() -> Entries:
    """Requests as servers get them, and what is read of their replies: of judges that ask, and of a model behind a server."""
    yield from _judged()
    yield from _held_to_parts()
    yield from _served()


def _judged() -> Entries:
    columns = {
        "questions": ["What color is the cube?", "Is it the same size?", "Describe it."],
        "references": [["red", "dark red"], ["no", "They are not of the same size.", "unclear"], ["There is a cube. It is red."]],
        "predictions": ["a blue one", "They are.", "There is a cube. It is green."],
        "evidence": ["cube: red", "sphere: 3, cube: 4", "cube: red, metal"],
    }
    for name in REPLIES:
        wanted = [p for p in inspect.signature(load("judges", name)).parameters if p in columns]
        with tempfile.TemporaryDirectory() as folder, chdir(folder), serving(partial(_said, name)) as server:
            by = {"plugin": "openai", "args": {"model": "m", "base_url": server.url}}
            made = load("judges", name)(JudgeContext(SETTINGS), *(columns[p] for p in wanted), by=by)
            bodies = sorted(json.dumps(_brief(body), sort_keys=True) for body in server.bodies)
        yield f"judges/{name}/requests", ("judgements", "replies"), [json.loads(body) for body in bodies]
        verdicts = [[one.rating, one.pred_is_idk, one.parse_ok, dict(one.marks)] for one in made]
        yield f"judges/{name}/verdicts", ("judgements", "replies"), verdicts


def _held_to_parts() -> Entries:
    """What a generator sends for a pair, to a server that holds replies to a schema and to one that refuses to."""
    for name, refuses in (("structured", False), ("refused", True)):
        with tempfile.TemporaryDirectory() as folder, chdir(folder):

            def script(body: dict[str, Any], nth: int, refuses: bool = refuses) -> Any:
                return (400, "no response_format", {}) if refuses and "response_format" in body else "{}"

            with serving(script) as server:
                by = {"plugin": "openai", "args": {"model": "m", "base_url": server.url, "structured": "json_schema"}}
                open_generator(by, SETTINGS).complete([chat("Two questions?")], max_new_tokens=9, parts=["Q1", "A1"])
                bodies = [_brief(body) for body in server.bodies]
        yield f"generators/openai/{name}", ("replies",), bodies


def _said(judge: str, body: dict[str, Any], nth: int) -> str:
    words = _brief(body["messages"])[0]["content"]
    return next(reply for part, reply in REPLIES[judge].items() if part in words)


def _served() -> Entries:
    """A toy model whose probabilities follow from what it is sent."""
    parts = ("answer", "draw 1", "draw 2", "p_yes", "p_true", "said_confidence", "without_question")
    opened, options = "What color is the cube ?", ["red", "blue", "green"]
    requests = {
        "open": (opened, (), None, parts),
        "options": (opened, options, None, ("options",)),
        "picture": (opened, (), picture(0), ("answer",)),
    }
    for name, (question, choices, image, wanted) in requests.items():
        with toy_serving() as server:
            settings = Settings(progress=False, servers=IMPATIENT)
            args = {"logprobs": 20, "partial_p_true": True, "prompt_logprobs": True, "base_url": server.url}
            model = load("models", "openai")(ModelContext("gpt", settings=settings), model="toy", **args)
            prompt = model.render(messages(question, choices, n_images=image is not None))
            request = Request(prompt, image, len(choices), question, wanted, stream=11)
            work = partial(model.parts, decoding=Decoding(4, 0.9, 0.9))
            replies = [reply for some in model.client.pooled([request], work, "sample") for _, reply in some]
            bodies = sorted(json.dumps(_brief(body), sort_keys=True) for body in server.bodies)
        yield f"models/openai/{name}/requests", ("served_answers",), [json.loads(body) for body in bodies]
        if image is None:  # else what the toy says follows from a picture's file, which libraries write
            told = {r.part: [{k: v for k, v in vars(r.value).items() if v is not None}, r.reason] for r in replies}
            yield f"models/openai/{name}/parts", ("served_answers",), dict(sorted(told.items()))


def _brief(body: Any) -> Any:
    """A request without the bytes of its pictures, and without the words that a prompt file begins with: whoever edits one raises nothing,
    since what is sent is in the key of the reply."""
    if isinstance(body, dict):
        return {key: _brief(value) for key, value in body.items()}
    if isinstance(body, list):
        return [_brief(value) for value in body]
    if isinstance(body, str) and body.startswith("data:image/"):
        return body.partition(",")[0]
    return body[max(_alike(body, text) for text in _prompts()) :] if isinstance(body, str) and len(body) > SHORT else body


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with together."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@cache
def _prompts() -> list[str]:
    """The prompt files, without the remark at their head."""
    return [path.read_text(encoding="utf-8").partition("-->\n")[2] for path in PROMPTS.glob("*.md")]
