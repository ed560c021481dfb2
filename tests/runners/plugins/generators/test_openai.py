"""Against a real server on loopback that fails in every way we could think of; and against `transformers serve`."""

import base64
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import PIL.Image
import pytest

from qualm.runners.contracts.generators import GeneratorError, Message, chat
from qualm.runners.inference.generator import open_generator
from qualm.runners.runtime.server_config import Price
from qualm.runners.runtime.settings import Settings, SettingsError
from tests.support.models.tiny_models import tiny_llm
from tests.support.processes.waiting import TIMEOUT
from tests.support.servers.small_server import NONSENSE, completion, serving
from tests.support.servers.transformers_serve import transformers_serve

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("QUALM_TEST_KEY", KEY)


def opened(url, cache, model="m", **more):
    own = {"key": "QUALM_TEST_KEY", "pause": 0.01, "timeout": 5.0, "retries": 3}
    settings = Settings(progress=False, servers={url: {**own, **more}})
    return open_generator({"plugin": "openai", "args": {"model": model, "base_url": url}}, settings, cache)


def asked(body):
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def prompts(n):
    return [chat(f"question {i}") for i in range(n)]


def test_replies_in_order_kept_and_never_asked_again(tmp_path):
    with serving(lambda body, nth: f"answer to {asked(body)}, seed {body['seed']}") as server:
        generator = opened(server.url, tmp_path, concurrency=5)
        replies = generator.complete(prompts(40), max_new_tokens=7, temperature=0.5, seeds=list(range(40)))
        assert [r.text for r in replies] == [f"answer to question {i}, seed {i}" for i in range(40)]
        assert (replies[0].prompt_tokens, replies[0].reply_tokens, replies[0].finish) == (10, 5, "stop")
        assert 1 < server.most <= 5
        assert {b["max_tokens"] for b in server.bodies} == {7}
        assert {b["temperature"] for b in server.bodies} == {0.5}
        assert set(server.keys) == {f"Bearer {KEY}"}
        again = opened(server.url, tmp_path)
        assert again.complete(prompts(40), max_new_tokens=7, temperature=0.5, seeds=list(range(40))) == replies
        assert len(server.bodies) == 40
        assert again.counters == {"replies stored": 40}
    assert KEY not in "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file()) + generator.identity


def drawn(mode, form):
    with io.BytesIO() as file:
        PIL.Image.new(mode, (8, 8)).save(file, form)
        return file.getvalue()


def test_pictures_go_as_data_urls(tmp_path):
    png, jpeg, transparent = (drawn(*how) for how in (("RGB", "PNG"), ("RGB", "JPEG"), ("RGBA", "TIFF")))
    with serving(lambda body, nth: "seen") as server:
        talk = [Message("system", "Look."), Message("user", "What?", (png, jpeg, transparent))]
        opened(server.url, tmp_path).complete([talk], max_new_tokens=4)
    system, user = server.bodies[0]["messages"]
    assert system == {"role": "system", "content": "Look."}
    urls = [part["image_url"]["url"] for part in user["content"][:3]]
    assert urls[0] == f"data:image/png;base64,{base64.b64encode(png).decode()}"
    assert urls[1] == f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
    assert urls[2].startswith("data:image/png;base64,"), "as models see it, in a format that servers read"
    assert user["content"][3] == {"type": "text", "text": "What?"}


def test_what_may_pass_is_tried_again(tmp_path):
    troubles = [(500, "{}", {}), (503, "busy", {}), (429, "{}", {"retry-after": "0.02"})]
    with serving(lambda body, nth: troubles[nth] if nth < 3 else "at last") as server:
        generator = opened(server.url, tmp_path)
        assert [r.text for r in generator.complete(prompts(4), max_new_tokens=4)] == ["at last"] * 4
        assert len(server.bodies) == 16
        assert generator.counters["tries repeated"] == 12


@pytest.mark.parametrize("body", NONSENSE)
def test_nonsense_is_tried_again(tmp_path, body):
    with serving(lambda _, nth: (200, body, {}) if nth < 2 else "sense") as server:
        assert opened(server.url, tmp_path).complete(prompts(1), max_new_tokens=4)[0].text == "sense"
        assert len(server.bodies) == 3


@pytest.mark.slow
def test_a_silent_server_is_left_after_the_time_out(tmp_path):
    with serving(lambda body, nth: 30.0 if asked(body) == "question 1" else "quick") as server:
        start = time.monotonic()
        with pytest.raises(GeneratorError, match=r"request 2 of 3: failed 2 times, the last time: Request timed out"):
            opened(server.url, tmp_path, timeout=0.4, retries=1).complete(prompts(3), max_new_tokens=4)
        assert time.monotonic() - start < 20
        assert len(opened(server.url, tmp_path).replies) == 2


def test_a_dead_server_stops_the_run_and_keeps_what_was_answered(tmp_path):
    with serving(lambda body, nth: (500, "out of order", {}) if int(asked(body).split()[1]) >= 10 else "fine") as server:
        with pytest.raises(GeneratorError) as caught:
            opened(server.url, tmp_path, concurrency=2, retries=1).complete(prompts(50), max_new_tokens=4)
        assert "failed 2 times, the last time: status 500: out of order" in str(caught.value)
        assert "what was answered is kept, run again to go on" in str(caught.value)
        assert len(opened(server.url, tmp_path).replies) == 10
        assert len(server.bodies) < 10 + 2 * 8
    with serving(lambda body, nth: "back") as server:
        pass
    with pytest.raises(GeneratorError, match=r"cannot connect to http://127.*Connection refused\); start the server"):
        opened(server.url, tmp_path, retries=0).complete(prompts(1), max_new_tokens=4)


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, f"wrong key {KEY}"), (404, "no such model"), (429, '{"error": {"code": "insufficient_quota", "message": "pay"}}')],
)
def test_the_hopeless_is_not_tried_again(tmp_path, status, body):
    with serving(lambda *_: (status, body, {})) as server:
        with pytest.raises(GeneratorError, match=f"status {status}") as caught:
            opened(server.url, tmp_path, concurrency=1).complete(prompts(20), max_new_tokens=4)
        assert len(server.bodies) == 1
    assert KEY not in str(caught.value)
    assert "1 request failed and 19 were not sent" in str(caught.value)


def test_one_request_that_the_server_rejects(tmp_path):
    def script(body, nth):
        if asked(body) == "question 1":
            return 400, "too long", {}
        return (200, completion("", "content_filter"), {}) if asked(body) == "question 2" else "fine"

    with serving(script) as server:
        replies = opened(server.url, tmp_path).complete(prompts(4), max_new_tokens=4)
        assert [r.text for r in replies] == ["fine", None, None, "fine"]
        assert replies[1].error == "status 400: too long"
        assert "content filter" in replies[2].error
        assert len(server.bodies) == 4


def test_spending_stops_below_the_cap(tmp_path):
    dear = {"price": Price(10.0, 1000.0)}
    with serving(lambda *_: "fine") as server:
        # each reply costs (10 * 10 + 5 * 1000) / 1e6 = .0051 dollars, and may cost .0103 at most
        generator = opened(server.url, tmp_path, concurrency=4, max_spend=0.05, **dear)
        with pytest.raises(
            GeneratorError, match=r"the next request could exceed .* \(max_spend = \$0.05, \$0.04\d+ spent; .* \$0.0103\); raise it"
        ):
            generator.complete(prompts(30), max_new_tokens=10)
        kept = len(generator.replies)
        assert 7 <= kept <= 9
        assert generator.engine.client.budget.spent == pytest.approx(kept * 0.0051)
        assert generator.counters["cents spent"] == -(-kept * 51 // 100)
        more = opened(server.url, tmp_path, max_spend=1.0, **dear)
        assert len(more.complete(prompts(30), max_new_tokens=10)) == 30
        assert more.counters["replies stored"] == kept
        assert len(server.bodies) == 30


def test_a_cap_of_a_spec_holds_across_reruns_and_servers(tmp_path):
    def opened_for(url, cap, cache):
        table = {"pause": 0.01, "price": Price(10.0, 1000.0), "concurrency": 4}
        settings = Settings(progress=False, servers={url: table}, max_spend=cap, store=str(tmp_path / "store"), spec="mine")
        return open_generator({"plugin": "openai", "args": {"model": "m", "base_url": url}}, settings, tmp_path / cache)

    with serving(lambda *_: "fine") as server, serving(lambda *_: "fine") as other:
        for _ in range(3):  # a reply costs .0051 dollars, and may cost .0103: a run with new money would go on
            with pytest.raises(
                GeneratorError,
                match=r"max_spend = \$0.05, \$0.04\d+ spent over .*mine\.jsonl; the next request may cost \$0\.\d+\); raise",
            ):
                opened_for(server.url, 0.05, "replies").complete(prompts(30), max_new_tokens=10)
        first = len(server.bodies)
        assert 7 <= first <= 9
        with pytest.raises(GeneratorError, match="spent over all runs"):
            opened_for(other.url, 0.05, "others").complete(prompts(30), max_new_tokens=10)
        assert len(other.bodies) == 0, "two servers share the spec's money"
        assert len(opened_for(server.url, 1.0, "replies").complete(prompts(30), max_new_tokens=10)) == 30
        assert len(server.bodies) == 30


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"url": "http://me:pass@host/v1"}, "without user, password or query"),
        ({"url": "host/v1"}, "expected http"),
        ({"address": "http://me:pass@host/v1"}, "without user, password or query"),
        ({"key": "QUALM_NO_SUCH_KEY"}, "environment variable QUALM_NO_SUCH_KEY, which is not set"),
        ({"max_spend": 1.0}, "max_spend needs `price = {input = DOLLARS, output = DOLLARS}`"),
    ],
)
def test_wrong_parameters(tmp_path, args, message):
    with pytest.raises((GeneratorError, SettingsError), match=message) as caught:
        opened(args.pop("url", "http://127.0.0.1:9/v1"), tmp_path, **args).complete(prompts(1), max_new_tokens=4)
    assert "pass@" not in str(caught.value)


def test_kept_replies_need_no_key(tmp_path, monkeypatch):
    with serving(lambda *_: "fine") as server:
        opened(server.url, tmp_path).complete(prompts(2), max_new_tokens=4)
        monkeypatch.delenv("QUALM_TEST_KEY")
        assert [r.text for r in opened(server.url, tmp_path).complete(prompts(2), max_new_tokens=4)] == ["fine"] * 2
        with pytest.raises(GeneratorError, match="QUALM_TEST_KEY, which is not set"):
            opened(server.url, tmp_path).complete(prompts(3), max_new_tokens=4)


def test_a_server_that_wants_no_key(tmp_path):
    with serving(lambda *_: "open") as server:
        assert opened(server.url, tmp_path, key="").complete(prompts(1), max_new_tokens=4)[0].text == "open"
        assert server.keys == ["Bearer none"]


@pytest.mark.slow
def test_a_kill_costs_what_was_on_its_way(tmp_path):
    """kill -9 in the middle: the next run asks only for the rest."""
    code = (
        "import sys; from pathlib import Path; from qualm.runners.contracts.generators import chat\n"
        "from qualm.runners.inference.generator import open_generator; from qualm.runners.runtime.settings import Settings\n"
        "chosen = {'plugin': 'openai', 'args': {'model': 'm', 'base_url': sys.argv[1]}}\n"
        "settings = Settings(progress=False, servers={'default': {'concurrency': 1}})\n"
        "open_generator(chosen, settings, Path(sys.argv[2])).complete([chat(f'question {i}') for i in range(400)], max_new_tokens=4)"
    )
    root = Path(__file__).resolve().parents[4]
    with serving(lambda *_: "fine") as server:
        run = subprocess.Popen([sys.executable, "-c", code, server.url, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(root)})
        while len(server.bodies) < 12 and run.poll() is None:
            time.sleep(0.01)
        run.kill()
        run.wait(TIMEOUT)
        before = len(server.bodies)
        assert 12 <= before < 400
        generator = opened(server.url, tmp_path, key="")
        assert generator.counters["replies stored"] == 0
        assert len(generator.complete(prompts(400), max_new_tokens=4)) == 400
        assert before + 400 - generator.counters["replies stored"] == len(server.bodies)
        assert generator.counters["replies stored"] >= before - 1


@pytest.mark.slow
def test_transformers_serve(tmp_path):
    """A real server with a real (random) model: our client against transformers' own."""
    folder = tiny_llm(tmp_path / "llm")
    with transformers_serve(tmp_path) as url:
        generator = opened(url, tmp_path / "cache", model=str(folder), key="", timeout=60.0)
        replies = generator.complete(prompts(3), max_new_tokens=8)
        assert all(r.text for r in replies)
        own = open_generator({"plugin": "hf", "args": {"artifact": str(folder)}}, Settings(device="cpu", progress=False), tmp_path / "own")
        assert [r.text for r in own.complete(prompts(3), max_new_tokens=8)] == [r.text for r in replies]


PAIR = '{"Q1": "Why?", "A1": "It depends."}'


def structured(url, cache, **args):
    args = {"model": "m", "base_url": url, "structured": "json_schema", **args}
    settings = Settings(progress=False, servers={url: {"pause": 0.01, "retries": 1, "concurrency": 1}})
    return open_generator({"plugin": "openai", "args": args}, settings, cache)


def test_a_reply_is_held_to_its_parts_where_the_server_can(tmp_path):
    with serving(lambda body, nth: PAIR if "response_format" in body else "text") as server:
        generator = structured(server.url, tmp_path)
        (reply,) = generator.complete(prompts(1), max_new_tokens=9, parts=["Q1", "A1"])
        assert reply.text == PAIR
        assert server.bodies[0]["response_format"] == {
            "type": "json_schema",
            "json_schema": {
                "name": "parts", "strict": True,
                "schema": {
                    "type": "object", "properties": {"Q1": {"type": "string"}, "A1": {"type": "string"}}, "required": ["Q1", "A1"],
                    "additionalProperties": False,
                },
            },
        }  # fmt: skip
        assert generator.complete(prompts(1), max_new_tokens=9)[0].text == "text", "the same words without parts are another request"
        assert structured(server.url, tmp_path).complete(prompts(1), max_new_tokens=9, parts=["Q1", "A1"])[0].text == PAIR
        assert len(server.bodies) == 2


def test_a_server_that_refuses_schemas_is_asked_for_text_and_not_again(tmp_path):
    def script(body, nth):
        return (400, '{"error": "json_schema is not supported with this model"}', {}) if "response_format" in body else "text"

    with serving(script) as server:
        generator = structured(server.url, tmp_path)
        assert [r.text for r in generator.complete(prompts(4), max_new_tokens=9, parts=["Q1"])] == ["text"] * 4
        assert ["response_format" in body for body in server.bodies] == [True, False, False, False, False]
        assert generator.counters["schemas refused"] == 1


def test_a_request_that_is_refused_either_way_says_nothing_of_schemas(tmp_path):
    def script(body, nth):
        return (400, "too long", {}) if asked(body) == "question 0" else PAIR

    with serving(script) as server:
        generator = structured(server.url, tmp_path)
        replies = generator.complete(prompts(3), max_new_tokens=9, parts=["Q1"])
        assert [r.text for r in replies] == [None, PAIR, PAIR] and replies[0].error == "status 400: too long"
        assert ["response_format" in body for body in server.bodies] == [True, False, True, True]


@pytest.mark.parametrize(
    ("args", "does"),
    [
        ({}, True), ({"structured": "no"}, False), ({"base_url": "http://h/v1"}, False),
        ({"base_url": "http://h/v1", "structured": "json_schema"}, True),
    ],
)  # fmt: skip
def test_which_servers_are_taken_to_hold_replies(args, does, tmp_path):
    generator = open_generator({"plugin": "openai", "args": {"model": "m", **args}}, Settings(progress=False), tmp_path)
    assert generator.engine.structured is does


def test_other_engines_are_never_sent_a_schema(tmp_path):
    with serving(lambda *_: "text") as server:
        opened(server.url, tmp_path).complete(prompts(1), max_new_tokens=9, parts=["Q1"])
        assert "response_format" not in server.bodies[0]
