"""IVE: by rules from scene graphs, and by a server that sees; null is left out and counted, and one reply serves AMB and IVE."""

import json

import pytest

from registry.scenes.world import make_scene
from tests.rewriting import context, perturbed, rows, server
from tests.small_server import serving

NAME, KEY = "ive", "IVE"
QUESTIONS = ["What color is the dog?", "What is on the table?", "Who is that?"]
AMB = {"variant_question": "What color is the animal?", "plausible_answers": ["black", "white"]}
IVE = {"variant_question": "What does the dog look at?", "reason_unanswerable": "Out of Frame"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def reply(**changes):
    return json.dumps({"analysis": "Two animals.", "AMB": AMB, "IVE": IVE, **changes})


def test_by_rules_from_the_scene_graph():
    scene = next(s for s in (make_scene(1, "easy", "test", i) for i in range(50)) if len({o["color"] for o in s["objects"]}) > 2)
    thing = scene["objects"][0]
    questions = [f"What color is the {thing['color']} {thing['shape']}?", "What is it?"]
    given = context(rows(questions), {"i0": scene, "i1": scene})
    made, given = perturbed(NAME, questions, given)
    assert made[0].endswith("?") and made[0] != questions[0] and made[1] is None
    assert list(given.facts[0]) == ["plausible_answers" if KEY == "AMB" else "reason_unanswerable"] and given.facts[1] == {}
    assert dict(given.dropped) == {"no rule for it": 1}


def test_a_server_that_sees_and_null_is_left_out():
    def script(body, nth):
        text, picture = sorted(body["messages"][0]["content"], key=lambda part: part["type"] != "text")
        assert picture["image_url"]["url"].startswith("data:image/png;base64,")
        asked = text["text"].rsplit("## Question", 1)[1].strip()
        if asked == QUESTIONS[0]:
            return "```json\n" + reply() + "\n```"
        return reply(AMB=None, IVE=None) if asked == QUESTIONS[1] else reply() + " I hope this helps."

    with serving(script) as running:
        made, given = perturbed(NAME, QUESTIONS, generator=server(running.url), retries=2)
        assert made == [{"AMB": AMB, "IVE": IVE}[KEY]["variant_question"], None, None]
        assert dict(given.dropped) == {"generator says it cannot be done": 1, "malformed reply": 1}
        assert given.facts[0] == ({"plausible_answers": "black | white"} if KEY == "AMB" else {"reason_unanswerable": "Out of Frame"})
        assert len(running.bodies) == 1 + 1 + 3
        other = {"amb": "ive", "ive": "amb"}[NAME]
        assert perturbed(other, QUESTIONS, context(rows(QUESTIONS), label="other"), generator=server(running.url), retries=2)[0][0]
        assert len(running.bodies) == 5  # both perturbations read one reply


def test_a_generator_that_reads_only_text_is_refused(tmp_path):
    from runners.generators import GeneratorError
    from tests.tiny_models import tiny_llm

    by = {"plugin": "hf", "args": {"artifact": str(tiny_llm(tmp_path / "llm")), "dtype": None}}
    with pytest.raises(GeneratorError, match="is asked about pictures, but its folder has no processor"):
        perturbed(NAME, QUESTIONS, generator=by)
