import json
from pathlib import Path

import pytest

from qualm.runners.plugins.judges.pope import pope

FIXTURES = Path(__file__).resolve().parents[4] / ".." / "shared" / "fixtures" / "pope"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NO", "yes"),
        ("nothing", "yes"),
        ("It is not visible", "no"),
        ("Yes. No", "yes"),
        ("\nNo", "yes"),
        ("No, there is no dog.", "no"),
        ("No, it is a cat", "no"),
        ("no", "no"),
        ("No", "no"),
        ("Yes", "yes"),
        ("", "yes"),
        ("I don't know", "yes"),
        ("There is,no", "yes"),
        ("There is, no", "no"),
    ],
)
def test_the_official_rule_as_it_was_executed(text, said):
    (one,) = pope(["Is there a dog in the image?"], [["yes"]], [text])
    assert one.marks == {"said": float(said == "yes"), "truth": 1.0}
    assert one.rating == float(said == "yes")
    (other,) = pope(["Is there a dog in the image?"], [["no"]], [text])
    assert (other.rating, other.marks["truth"]) == (float(said == "no"), 0.0)


def test_the_released_answer():
    if not FIXTURES.is_dir():
        pytest.skip("no ../shared/fixtures/pope here")
    given = json.loads((FIXTURES / "answer_example.jsonl").read_text().splitlines()[0])
    (one,) = pope([given["question"]], [["yes"]], [given["answer"]])
    assert one.rating == 1
