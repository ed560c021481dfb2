import pytest

from qualm.runners.plugins.judges.mmhal import read_points
from tests.support.servers.asked_judge import ask, prompt_of
from tests.support.servers.small_server import serving


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("- Rating: 6, very informative with good analysis or reasoning, no hallucination", 6),
        ("RATING: 0", 0),
        ("I first thought Rating: 3, but Rating: 2", None),
        ("Rating: 4 ... Rating: 4", 4),
        ("rating : 3", None),
        ("Rating:3", None),
        ("Rating: 10", 1),
        ("Rating: 7", None),
        ("", None),
    ],
)
def test_the_official_reading(reply, expected):
    """As in the official script: each N of 0..6 is looked for as "rating: N" in the lower-cased reply, and just one must be found."""
    assert read_points(reply) == expected


def rater(body, nth):
    answer = prompt_of(body).rsplit("The assistant's answer: ", 1)[1]
    return {"Two cats.": "Right.\nRating: 5", "A dog.": "No dog.\nRating: 1"}.get(answer, "Fine, I think.")


def test_points_and_what_the_judge_is_told():
    with serving(rater) as server:
        made, _ = ask(
            server,
            "mmhal",
            ["How many cats?"] * 4,
            [["There are two cats."]] * 3 + [[]],
            ["Two cats.", "A dog.", "Hm.", "I don't know"],
            ["Lynx, Cat", "Lynx, Cat", "", ""],
        )
        first = next(prompt_of(b) for b in server.bodies if prompt_of(b).endswith("Two cats."))
        assert "In the picture: Lynx, Cat\n" in first and "The person's answer: There are two cats.\n" in first
        assert any("In the picture: not known\n" in prompt_of(b) for b in server.bodies)
        (zero,), _ = ask(server, "mmhal", ["?"], [["x"]], ["Hm."], [""], on_failure="zero")
    assert [j.marks.get("points") for j in made] == [5, 1, None, None]
    assert [j.rating for j in made] == [pytest.approx(5 / 6), pytest.approx(1 / 6), None, 1]
    assert [j.parse_ok for j in made] == [True, True, False, True]
    assert (zero.rating, zero.marks["points"], zero.parse_ok) == (0, 0, False)
