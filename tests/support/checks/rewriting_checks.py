"""What perturbations that rewrite questions keep: `inv` and `sbj`, of the question alone; `amb` and `ive`, of it and its picture."""

import json

import pytest

from qualm.registry.scenes.world import make_scene
from qualm.runners.contracts.generators import GeneratorError
from tests.support.checks.rewriting import context, perturbed, rows, server
from tests.support.models.tiny_models import tiny_llm
from tests.support.servers.small_server import serving

QUESTIONS = ["What color is the red cube?", "How many spheres are there?", "Who is that?"]
SEEN = ["What color is the dog?", "What is on the table?", "Who is that?"]
AMB = {"variant_question": "What color is the animal?", "plausible_answers": ["black", "white"]}
IVE = {"variant_question": "What does the dog look at?", "reason_unanswerable": "Out of Frame"}


def rules_know_their_own_questions_only(name):
    made, given = perturbed(name, QUESTIONS)
    assert all(m.endswith("?") and m != q for m, q in zip(made[:2], QUESTIONS, strict=False)) and made[2] is None
    assert "red cube" in made[0] and "spheres" in made[1]
    assert dict(given.dropped) == {"no rule for it": 1}
    assert perturbed(name, QUESTIONS)[0] == made


def a_server_is_asked_with_the_question_alone_until_its_reply_can_be_used(name):
    def script(body, nth):
        (turn,) = body["messages"]
        assert isinstance(turn["content"], str)  # no picture is sent
        asked = turn["content"].rsplit("## Question", 1)[1].strip()
        if asked == QUESTIONS[0]:
            return ["Here you are:\n\nWhy?\nOr how?", 'Here you are:\n\nRewritten: "Is it loud or is it red?"'][min(nth, 1)]
        return QUESTIONS[1].lower() if asked == QUESTIONS[1] else "I cannot say."

    with serving(script) as running:
        made, given = perturbed(name, QUESTIONS, generator=server(running.url))
        assert made == ["Is it loud or is it red?", None, None]
        assert dict(given.dropped) == {"same question": 1, "not a question": 1}
        assert len(running.bodies) == 2 + 4 + 4  # the first try and three more
        assert {b["temperature"] for b in running.bodies} == {0.7}
        assert len({b["seed"] for b in running.bodies}) == 10
        again, _ = perturbed(name, QUESTIONS, generator=server(running.url))
        assert again == made and len(running.bodies) == 10


def a_prompt_of_ones_own(name, file):
    file.write_text("Twist: {question}")
    with serving(lambda body, nth: body["messages"][0]["content"].replace("Twist: ", "Or not: ")) as running:
        made, _ = perturbed(name, QUESTIONS, generator=server(running.url), prompt=str(file))
    assert made == [f"Or not: {q}" for q in QUESTIONS]


def one_sample_has_one_reply_in_any_batch(name):
    with serving(lambda body, nth: f"Is {body['seed']} it?") as running:
        by = server(running.url)
        made, _ = perturbed(name, QUESTIONS, generator=by)
        assert perturbed(name, QUESTIONS[:1], generator=by)[0] == made[:1]
        other, _ = perturbed(name, QUESTIONS, context(rows(QUESTIONS), label="another variant"), generator=by)
    assert len({*made, *other}) == 6


def _reply(**changes):
    return json.dumps({"analysis": "Two animals.", "AMB": AMB, "IVE": IVE, **changes})


def rules_read_the_scene_graph(name, fact):
    scene = next(s for s in (make_scene(1, "easy", "test", i) for i in range(50)) if len({o["color"] for o in s["objects"]}) > 2)
    thing = scene["objects"][0]
    questions = [f"What color is the {thing['color']} {thing['shape']}?", "What is it?"]
    given = context(rows(questions), {"i0": scene, "i1": scene})
    made, given = perturbed(name, questions, given)
    assert made[0].endswith("?") and made[0] != questions[0] and made[1] is None
    assert list(given.facts[0]) == [fact] and given.facts[1] == {}
    assert dict(given.dropped) == {"no rule for it": 1}


def a_server_sees_and_null_is_left_out(name, other, question, facts):
    """And one reply serves this perturbation and the other."""

    def script(body, nth):
        text, picture = sorted(body["messages"][0]["content"], key=lambda part: part["type"] != "text")
        assert picture["image_url"]["url"].startswith("data:image/png;base64,")
        asked = text["text"].rsplit("## Question", 1)[1].strip()
        if asked == SEEN[0]:
            return "```json\n" + _reply() + "\n```"
        return _reply(AMB=None, IVE=None) if asked == SEEN[1] else _reply() + _reply(AMB=None)

    with serving(script) as running:
        made, given = perturbed(name, SEEN, generator=server(running.url), retries=2)
        assert made == [question, None, None]
        assert dict(given.dropped) == {"generator says it cannot be done": 1, "several sets of parts": 1}
        assert given.facts[0] == facts
        assert len(running.bodies) == 1 + 1 + 3
        assert perturbed(other, SEEN, context(rows(SEEN), label="other"), generator=server(running.url), retries=2)[0][0]
        assert len(running.bodies) == 5  # both perturbations read one reply


def a_generator_that_reads_only_text_is_refused(name, folder):
    by = {"plugin": "hf", "args": {"artifact": str(tiny_llm(folder)), "dtype": None}}
    with pytest.raises(GeneratorError, match="is asked about images, but its folder has no processor"):
        perturbed(name, SEEN, generator=by)
