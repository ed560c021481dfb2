from pathlib import Path

import pytest

from qualm.runners.contracts.judges import JudgeContext, JudgeError
from qualm.runners.plugins.judges._rubric import replies
from qualm.runners.runtime.settings import Settings
from tests.support.servers.small_server import IMPATIENT, serving


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p.md").write_text("Rate {answer}")


def asked(server, prompts, **options):
    context = JudgeContext(Settings(progress=False, servers=IMPATIENT))
    by = {"plugin": "openai", "args": {"model": "m", "base_url": server.url}}
    return replies(context, "mine", by, prompts, "p.md", 8, **options), context


def test_each_answer_is_asked_about_and_equal_ones_once():
    with serving(lambda body, nth: f"re: {body['messages'][0]['content']}") as server:
        told, _ = asked(server, [{"answer": "a"}, None, {"answer": "b"}, {"answer": "a"}])
    assert told == ["re: Rate a", None, "re: Rate b", "re: Rate a"] and len(server.bodies) == 2


def test_a_prompt_that_is_too_long_is_counted_and_not_asked():
    with serving(lambda body, nth: "ok") as server:
        told, context = asked(server, [{"answer": "abc"}, {"answer": "abcd"}], max_prompt_characters=len("Rate abc"))
    assert told == ["ok", None] and context.counters["prompts too long"] == 1 and len(server.bodies) == 1


def test_nothing_to_ask_asks_nothing(monkeypatch):
    assert replies(
        JudgeContext(Settings()), "mine", {"plugin": "openai", "args": {"model": "m", "base_url": "http://x"}}, [None], "p.md", 8
    ) == [None]


def test_a_prompt_without_its_place_is_the_judges_error():
    with pytest.raises(JudgeError, match=r"judge mine: p.md: expected the placeholder \{question\}"):
        replies(JudgeContext(Settings()), "mine", "x", [{"answer": "a", "question": "q"}], "p.md", 8)
