from collections import Counter

import pytest

from qualm.runners.contracts.generators import GeneratorError, Reply, chat
from qualm.runners.inference import generator
from qualm.runners.inference.generator import CachedGenerator, open_generator
from qualm.runners.runtime.settings import Settings

QUIET = Settings(progress=False)


class Engine:
    """Answers each request by its text; None where that begins with `no`; fails after a number of batches."""

    identity, name = "engine 1", "the engine"

    def __init__(self, fails_after=99):
        self.asked, self.fails_after, self.counters = [], fails_after, Counter()

    def answer(self, requests):
        self.asked += [(r.messages[0].text, r.seed) for r in requests]
        for place, request in reversed(list(enumerate(requests))):
            if self.fails_after == 0:
                raise GeneratorError("it is gone")
            self.fails_after -= 1
            self.counters["sent"] += 1
            text = request.messages[0].text
            yield [(place, Reply(None, "rejected", error="unwilling") if text.startswith("no") else Reply(f"{text}!"))]


def texts(replies):
    return [reply.text for reply in replies]


def test_replies_are_in_order_and_equal_requests_are_asked_once(tmp_path):
    asker = CachedGenerator(Engine(), QUIET, tmp_path)
    assert texts(asker.complete([chat("a"), chat("b"), chat("a")], max_new_tokens=4)) == ["a!", "b!", "a!"]
    assert asker.engine.asked == [("a", 0), ("b", 0)]
    assert asker.counters == {"replies stored": 0, "replies computed": 2, "sent": 2}
    again = CachedGenerator(Engine(), QUIET, tmp_path)
    assert texts(again.complete([chat("b"), chat("c")], max_new_tokens=4)) == ["b!", "c!"]
    assert again.engine.asked == [("c", 0)] and again.counters["replies stored"] == 1


def test_another_seed_limit_or_temperature_is_another_request(tmp_path):
    asker = CachedGenerator(Engine(), QUIET, tmp_path)
    asker.complete([chat("a"), chat("a")], max_new_tokens=4, seeds=[0, 1])
    asker.complete([chat("a")], max_new_tokens=5)
    asker.complete([chat("a")], max_new_tokens=4, temperature=0.5)
    assert asker.engine.asked == [("a", 0), ("a", 1), ("a", 0), ("a", 0)]


def test_what_was_answered_before_a_failure_is_kept(tmp_path):
    with pytest.raises(GeneratorError, match="it is gone"):
        CachedGenerator(Engine(fails_after=1), QUIET, tmp_path).complete([chat("a"), chat("b")], max_new_tokens=4)
    again = CachedGenerator(Engine(), QUIET, tmp_path)
    assert texts(again.complete([chat("a"), chat("b")], max_new_tokens=4)) == ["a!", "b!"] and again.engine.asked == [("a", 0)]


def test_a_rejected_request_is_no_reply_and_is_asked_again(tmp_path):
    asker = CachedGenerator(Engine(), QUIET, tmp_path)
    assert texts(asker.complete([chat("no"), chat("a")], max_new_tokens=4)) == [None, "a!"] and asker.counters["replies rejected"] == 1
    assert texts(asker.complete([chat("no")], max_new_tokens=4)) == [None] and asker.engine.asked[-1] == ("no", 0)


def test_where_every_request_was_ever_rejected_it_stops(tmp_path):
    with pytest.raises(GeneratorError, match=r"the engine: every request was rejected \(2\); the first: unwilling"):
        CachedGenerator(Engine(), QUIET, tmp_path).complete([chat("no"), chat("no 2")], max_new_tokens=4)


def test_a_reply_that_cannot_be_kept_is_an_error(tmp_path, monkeypatch):
    asker = CachedGenerator(Engine(), QUIET, tmp_path)
    monkeypatch.setattr(asker.replies, "put", lambda replies: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(GeneratorError, match=r"1 replies cannot be kept in .*\(full\)"):
        asker.complete([chat("a")], max_new_tokens=4)


def test_a_composer_answers_no_prompts(tmp_path, monkeypatch):
    with pytest.raises(GeneratorError, match="generator 'rules' answers no prompts"):
        open_generator({"plugin": "rules", "args": {}}, QUIET, tmp_path)
    monkeypatch.setattr(generator, "open_engine", lambda chosen, settings: Engine())
    assert open_generator("x", QUIET, tmp_path).identity == "engine 1"
