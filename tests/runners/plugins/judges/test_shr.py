import pytest

from qualm.runners.plugins.judges.shr import read_verdicts, sentences
from tests.support.servers.asked_judge import ask, prompt_of
from tests.support.servers.small_server import serving


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_sentences_that_repeat_are_dropped():
    assert sentences("A man rides a horse. He waves. A man rides a horse. a horse. He waves at us.") == [
        "A man rides a horse", "He waves", "He waves at us",
    ]  # fmt: skip
    assert sentences(" . ") == []


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Judgement:\n1. hallucination: no cat\n2. Correct: yes\n3. cannot judge: mood", ["hallucination", "correct", "cannot judge"]),
        ("1) **Correct**: a\n2) **Correct**: b\n3) Cannot judge", ["correct", "correct", "cannot judge"]),
        ("1. correct\n2. correct", None),
        ("1. correct\n3. correct\n2. correct", None),
        ("1. correct\n2. correct\n3. correct\n4. correct", None),
        ("1. so it is\n2. correct\n3. correct", ["so it is", "correct", "correct"]),
        (None, None),
    ],
)
def test_a_judgement_to_every_sentence(reply, expected):
    assert read_verdicts(reply, 3) == expected


def judge(body, nth):
    text = prompt_of(body).split("Sentences:\n")[1].splitlines()
    if any("Silence" in line for line in text):
        return "I would rather not."
    words = [
        ("hallucination" if "cat" in line else "cannot judge" if "calm" in line else "well" if "x" in line else "correct") for line in text
    ]
    return "\n".join(f"{i}. {word}: so it is" for i, word in enumerate(words, 1))


def test_counts_of_sentences():
    facts, region = ["There is a dog."], "[0, 0, 9, 9]: a brown dog"
    said = ["A dog. A cat sits. It is calm. A dog.", "A cat. An ox", "Silence.", "", "x" * 16_000, "A dog runs."]
    with serving(judge) as server:
        made, context = ask(server, "shr", ["Describe this image in detail."] * 6, [*[facts] * 5, []], said, [region] * 6)
        assert len(server.bodies) == 3, "neither without sentences, nor beyond the longest prompt, nor without facts"
        text = next(prompt_of(b) for b in server.bodies if "calm" in prompt_of(b).split("Sentences:")[1])
        assert f"Regions:\n{region}\n\nFacts:\nThere is a dog.\n\nSentences:\n1. A dog.\n2. A cat sits.\n3. It is calm." in text
    assert made[0].marks == {"hallucinated": 1, "correct": 1, "unclear": 1, "sentences": 3}
    assert made[0].rating == pytest.approx(2 / 3)
    assert (made[1].rating, made[1].marks["sentences"]) == (0, 1), "what is called something else is left out"
    assert [(j.rating, j.parse_ok, dict(j.marks)) for j in made[2:5]] == [(None, False, {})] * 3
    assert (made[5].rating, dict(made[5].marks)) == (0, {}), "without facts only a refusal is right"
    assert context.counters["prompts too long"] == 1
