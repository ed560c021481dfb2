"""Questions by a model that sees both pictures: a real server on loopback, and a local model with random weights."""

import base64
import io

import numpy as np
import PIL.Image
import pytest

from qualm.registry.sample import Sample
from qualm.registry.scenes.contrast import parse_query, possible_answers
from qualm.registry.scenes.removal import remove_objects
from qualm.runners.contracts.generators import NoPairError
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.data.scene_graphs import read_scenes
from qualm.runners.plugins.pairs._two_pictures import NewQuestion, read_new_question
from qualm.runners.plugins.pairs.inpainted import inpainted
from qualm.runners.runtime.settings import Settings
from tests.support.data.scenes_folder import scenes_folder
from tests.support.models.tiny_models import tiny_llava
from tests.support.servers.small_server import IMPATIENT, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        return scenes_folder(root, test=45)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make(folder, asker, **more):
    context = PairContext({"scenes": folder}, 7, "llm", Settings(device="cpu", workers=1, progress=False, servers=IMPATIENT))
    args = {"dataset": "scenes", "saliency": "scene_graph", "mask": "scene_graph", "dilate": 5, "question": "llm", "asker": asker, **more}
    return context, [s for s in inpainted(context, **args) if isinstance(s, Sample)]


def openai(server):
    return {"plugin": "openai", "args": {"model": "m", "base_url": server.url}}


def pictures_of(body):
    parts = [p for p in body["messages"][-1]["content"] if p["type"] == "image_url"]
    data = [base64.b64decode(p["image_url"]["url"].partition(",")[2]) for p in parts]
    return [np.asarray(PIL.Image.open(io.BytesIO(d)).convert("RGB")) for d in data]


@pytest.mark.slow
def test_both_pictures_are_shown_and_only_what_can_be_proved_is_kept(folder):
    scenes = read_scenes(folder)
    from qualm.registry.scenes.render import render

    known = {render(s).tobytes(): s for s in scenes.values()}

    def script(body, nth):
        whole, painted = pictures_of(body)
        scene = known[whole.tobytes()]
        change = (whole != painted).any(-1)
        gone = [o for o in scene["objects"] if change[int(o["pixel_coords"][1]), int(o["pixel_coords"][0])]]
        thing = gone[0]
        if scene["image_index"] % 3 == 0:
            return f"Q: How nice is the {thing['color']} {thing['shape']}?\nA1: very\nA2: I don't know."
        if scene["image_index"] % 3 == 1:
            return "no idea"
        return f"- Q: What color is the {thing['shape']}?\n- A1: {thing['color']}\n- A2: I don't see any {thing['shape']}."

    with serving(script) as server:
        context, samples = make(folder, openai(server), attempts=2)
    assert samples and context.dropped["no part found"] > 0 and context.dropped["cannot be proved"] > 0
    assert context.counters["replies computed"] == len(server.bodies)
    for first, second in zip(samples[::2], samples[1::2], strict=True):
        scene = scenes[first.image_id]
        query = parse_query(first.question)
        assert possible_answers(query, scene) == first.references
        gone = [i for i, o in enumerate(scene["objects"]) if o["shape"] == query.of["shape"]]
        assert possible_answers(query, remove_objects(scene, gone)) == ()
        assert second.meta["idk"] == "llm" and second.references == (f"I don't see any {query.of['shape']}.",)


def test_a_local_model_that_sees_runs_and_its_noise_is_counted(folder, tmp_path):
    model = tiny_llava(tmp_path / "vlm")
    context, samples = make(folder, {"plugin": "hf", "args": {"artifact": str(model), "dtype": None}}, attempts=1, max_new_tokens=4)
    assert samples == [] and sum(context.dropped.values()) > 5


def test_an_asker_is_needed(folder):
    with pytest.raises(PairError, match="expected a generator that reads images as `asker`"):
        make(folder, None)


def test_replies_that_can_be_read():
    asked = NewQuestion("What color is the car?", "Red", "I don't see a car.")
    for reply in (
        "Q: What color is the car?\nA1: Red\nA2: I don't see a car.",
        "- Q: What color is the car?\n\n- A1: Red\n- A2: I don't see a car.\n",
        "**Q**: What color is the car?\n**A1**: Red\n**A2:** I don't see a car.",
        "Sure!\nQ: What color is the car?\nA1: Red\nA2: I don't see a car.\n\nNote: the car is gone.",
        "A1: Red\nQuestion: What color is the car?\nA2: I don't see a car.",
        "Question: What color is the car?\nAnswer 1: Red\nAnswer 2: I don't see a car.",
        "Question: What color is the car?\nFirst picture: Red\nSecond picture: I don't see a car.",
        'Here:\n```json\n{"question": "What color is the car?", "A1": "Red", "A2": "I don\'t see a car."}\n```',
        '{"Q": "What color is the car?", "answers": ["Red", "I don\'t see a car."]}',
    ):
        assert read_new_question(reply) == asked
    assert read_new_question("Q: What is on his head?\nA1: A hat\nA2: Nothing").declined == "Nothing"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "no part found"),
        ("Q: What?\nA1: x", "part missing"),
        ("Q: What?\nA1:\nA2: I don't know", "part missing"),
        ("Q: What?\nA1: x\nIt is nice.\nA2: I don't know", "text between the parts"),
        ("Q: What?\nA1: x\nA2: I don't know\n\nQ: Who?\nA1: x\nA2: I don't know", "several sets of parts"),
        ("Q: Tell me\nA1: x\nA2: I don't know", "not a question"),
        ("Q: Is the car red?\nA1: Yes\nA2: I don't know", "yes or no"),
        ("Q: What color is it?\nA1: I don't know\nA2: I don't know", "answerable one is declined"),
        ("Q: What color is it?\nA1: red\nA2: blue", "unanswerable one is answered"),
        ("Q: What is the red car like?\nA1: red\nA2: I don't know", "answer in the question"),
        ("Q: What color is the car?\nA1: red\nA2: I don't see a red car", "answer in the refusal"),
    ],
)
def test_replies_that_cannot(reply, reason):
    with pytest.raises(NoPairError, match=reason):
        read_new_question(reply)
