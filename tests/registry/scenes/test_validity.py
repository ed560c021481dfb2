import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualm.registry.scenes.questions import KINDS, ask
from qualm.registry.scenes.validity import InvalidQuestionError, check
from qualm.registry.scenes.world import DIRECTIONS, make_scene, relationships, stream

THINGS = [
    {"size": "large", "color": "red", "material": "metal", "shape": "cube", "3d_coords": [0.0, 0.0, 0.7]},
    {"size": "small", "color": "red", "material": "metal", "shape": "sphere", "3d_coords": [1.0, 0.1, 0.35]},
    {"size": "small", "color": "blue", "material": "rubber", "shape": "sphere", "3d_coords": [2.0, -1.0, 0.35]},
]
SCENE = {
    "objects": THINGS,
    "directions": {name: list(vector) for name, vector in DIRECTIONS.items()},
    "relationships": relationships([t["3d_coords"] for t in THINGS]),
}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("What color is the cube?", "red"),
        ("What is the shape of the large object?", "cube"),
        ("Is there a blue sphere?", "yes"),
        ("Are there any blue cubes?", "no"),
        ("How many red metal objects are there?", "2"),
        ("What number of objects are there?", "3"),
        ("Is the blue sphere right of the cube?", "yes"),
        ("Is the blue sphere behind the cube?", "no"),
        ("What color is the object right of the red sphere?", "blue"),
        ("What size is the object left of the red sphere?", "large"),
    ],
)
def test_right_answers_pass_and_wrong_ones_do_not(text, answer):
    check(SCENE, text, answer)
    with pytest.raises(InvalidQuestionError, match="expected the answer"):
        check(SCENE, text, {"yes": "no", "no": "yes"}.get(answer, "7"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("What color is the sphere?", "expected one sphere, the scene has 2"),
        ("What color is the green cube?", "expected one green cube, the scene has 0"),
        ("Is the red sphere behind the cube?", "a matter of taste"),  # 0.1 apart
        ("Is the cube left of the cube?", "a matter of taste"),
        ("Is the sphere left of the cube?", "the scene has 2"),
        ("What colour is the cube?", "not a question of ours"),
        ("Is there a cube red?", "expected a noun phrase of ours, got 'cube red'"),
        ("How many pink cubes are there?", "expected a noun phrase of ours"),
        ("How many dogs are there?", "expected a noun phrase of ours, got 'dogs'"),
    ],
)
def test_invalid_questions(text, says):
    with pytest.raises(InvalidQuestionError, match=says):
        check(SCENE, text, "red")


def test_relations_within_the_margin():
    check(SCENE, "Is the cube left of the red sphere?", "yes", 0.9)
    with pytest.raises(InvalidQuestionError, match=r"1.000 apart, expected more than 1"):
        check(SCENE, "Is the cube left of the red sphere?", "yes", 1.0)
    wrong = {
        **SCENE,
        "relationships": {**SCENE["relationships"], "left": SCENE["relationships"]["right"], "right": SCENE["relationships"]["left"]},
    }
    with pytest.raises(InvalidQuestionError, match="its coordinates say the other"):
        check(wrong, "Is the cube left of the red sphere?", "no")


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.sampled_from(["easy", "medium", "hard"]), st.sampled_from(KINDS))
def test_what_is_asked_of_drawn_scenes_is_valid(seed, level, kind):
    scene = make_scene(seed, level, "test", 0)
    question = ask(stream(seed), scene, kind)
    if question is not None:
        check(scene, question.text, question.answer)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("What color is the object right of the cube?", "expected one object there, the scene has 2"),
        ("What color is the object left of the cube?", "expected one object there, the scene has 0"),
        ("What color is the object behind the cube?", "neither behind nor front"),
    ],
)
def test_a_direction_holds_one_object_and_nothing_borderline(text, message):
    with pytest.raises(InvalidQuestionError, match=message):
        check(SCENE, text, "red")
