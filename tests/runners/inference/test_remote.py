"""Answers from a server: all are stored, those it refuses only when others were answered, and the record says what happened."""

import json
from contextlib import chdir
from pathlib import Path

import pytest

from qualm.runners.contracts.models import ModelContext
from qualm.runners.inference import batch_plan
from qualm.runners.inference.remote import ask_all, server_record
from qualm.runners.inference.run import generations_table, open_store
from qualm.runners.plugins.models.openai import openai
from qualm.runners.runtime.server_config import check_servers
from qualm.runners.runtime.stage import StageError
from tests.support.projects.asking import asker_of, bare_stage, sample, write_samples
from tests.support.servers.small_server import IMPATIENT, completion, serving
from tests.support.servers.toy_server import toy_serving

NO = (400, '{"error": {"message": "against our rules"}}', {})
ONE_BY_ONE = {"default": {**IMPATIENT["default"], "concurrency": 1}}


@pytest.fixture(autouse=True)
def here(tmp_path):
    with chdir(tmp_path):
        yield


def asking(server, n, needs=("text",), servers=ONE_BY_ONE, **args):
    folder = write_samples(Path("d").absolute(), [sample(f"s{i:02}", None, f"What is {i}?") for i in range(n)], {})
    stage = bare_stage({"draws": 2} if "draws" in needs else {}, servers=servers)
    model = openai(ModelContext("gpt", settings=stage.settings), model="toy", base_url=server.url, **args)
    return asker_of({"d": folder}, needs=needs, model=model, stage=stage)


def ask(asker):
    """Have the server answer what the store lacks; the store and what it still lacks."""
    cells, _ = asker.survey()
    store = open_store(asker, {})
    ask_all(asker, store, batch_plan.look_up(asker, cells, store).missing)
    return cells, store, batch_plan.look_up(asker, cells, store)


def lines(asker):
    return [json.loads(line) for line in server_record(asker.stage).read_text().splitlines()]


def refusing(numbers, otherwise="red"):
    return lambda body, nth: NO if any(f"What is {i}?" in body["messages"][0]["content"] for i in numbers) else otherwise


def test_every_answer_is_stored_and_the_record_says_by_whom():
    with toy_serving() as server:
        asker = asking(server, 3, ["text", "token_logprobs", "p_yes", "draws"], logprobs=20)
        cells, store, left = ask(asker)
        assert left.missing == [] and left.stored == {"answer": 3, "p_yes": 3, "draw 1": 3, "draw 2": 3}
        rows = generations_table(asker, 0, cells, store).to_pylist()
        sent = len(server.bodies)
    assert [r["draw"] for r in rows] == [0, 1, 2] * 3 and all(0 <= r["p_yes"] <= 1 for r in rows[::3])
    (facts,) = lines(asker)
    assert facts["model"] == "toy" and facts["base_url"] == server.url and facts["undefined"] == [] and facts["dollars"] is None
    assert facts["served"] == {"toy-1 fp_7": sent} and facts["tokens"]["sent"] == 50 * sent
    assert server_record(asker.stage) == Path(".qualm/runs/t/infer.served.jsonl")


def test_what_is_asked_about_an_answer_is_about_the_stored_one():
    with toy_serving() as server:
        ask(asking(server, 2, logprobs=20))
        before = len(server.bodies)
        asker = asking(server, 2, ["text", "p_yes"], logprobs=20)
        _, _, left = ask(asker)
        assert left.missing == [] and len(server.bodies) == before + 2
        later = server.bodies[before:]
    assert all(body["messages"][1]["role"] == "assistant" for body in later)


def test_nothing_to_do_writes_no_record():
    with toy_serving() as server:
        asker = asking(server, 1)
        ask_all(asker, open_store(asker, {}), [])
    assert not server_record(asker.stage).exists()


def test_a_refusal_is_undefined_told_and_not_asked_again(capfd):
    with serving(refusing([1])) as server:
        asker = asking(server, 3)
        cells, store, left = ask(asker)
        assert left.missing == [] and asker.stage.counters == {"rejected": 1}
        assert [r["text"] for r in generations_table(asker, 0, cells, store).to_pylist()] == ["red", None, "red"]
        (undefined,) = lines(asker)[0]["undefined"]
        reason = undefined.pop("reason")
        assert "against our rules" in reason
        assert undefined == {"dataset": "d", "sample": "s01", "variant": "clean", "part": "answer", "rejected": "yes"}
        assert capfd.readouterr().err == f"t/infer: d s01 clean answer: undefined: {reason}\n"
        sent = len(server.bodies)
        ask(asking(server, 3))
        assert len(server.bodies) == sent
    assert len(lines(asker)) == 1


def test_what_is_answered_but_undefined_is_counted_by_its_part_and_kept():
    """A server that shows no log-probabilities: P(yes) cannot be read, the answer can."""
    with serving(lambda body, nth: completion("red")) as server:
        asker = asking(server, 2, ["text", "said_confidence", "option_logits"])
        _, _, left = ask(asker)
    assert left.missing == [] and asker.stage.counters == {}
    with toy_serving() as server:
        folder = write_samples(Path("mc").absolute(), [sample("c", None, "Which?", list("UVWXYZ") * 3)], {})
        stage = bare_stage(servers=ONE_BY_ONE)
        model = openai(ModelContext("gpt", settings=stage.settings), model="toy", base_url=server.url, logprobs=20)
        asker = asker_of({"mc": folder}, needs=["option_logits"], model=model, stage=stage)
        _, _, left = ask(asker)
    assert left.missing == [] and asker.stage.counters == {"undefined options": 1}
    (undefined,) = lines(asker)[-1]["undefined"]
    assert undefined["part"] == "options" and "rejected" not in undefined


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_where_every_request_is_refused_the_run_stops_and_nothing_is_kept(n):
    with serving(lambda body, nth: NO) as server:
        asker = asking(server, n)
        with pytest.raises(StageError, match=rf"every request was rejected \({min(n, 3)} samples\); the first: .*against our rules"):
            ask(asker)
    assert len(open_store(asker, {})) == 0 and asker.stage.counters == {"rejected": min(n, 3)}
    assert len(lines(asker)[0]["undefined"]) == min(n, 3), "the record is written all the same"


def test_where_one_was_answered_before_refusals_are_taken_for_what_they_are():
    with serving(refusing([0])) as server:
        ask(asking(server, 2))
    with serving(lambda body, nth: NO) as other:
        folder = write_samples(Path("d").absolute(), [sample(f"t{i}", None, f"Why {i}?") for i in range(4)], {})
        stage = bare_stage(servers={"default": {**ONE_BY_ONE["default"], "address": other.url}})
        model = openai(ModelContext("gpt", settings=stage.settings), model="toy", base_url=server.url)
        asker = asker_of({"d": folder}, model=model, stage=stage)
        _, _, left = ask(asker)
    assert left.missing == [] and stage.counters == {"rejected": 4}


@pytest.mark.parametrize(("refused", "more"), [(10, ""), (11, "1"), (12, "2")])
def test_ten_are_told_and_the_rest_counted(capfd, refused, more):
    with serving(refusing(range(10, 10 + refused))) as server:
        asker = asking(server, 10 + refused)
        ask(asker)
    told = capfd.readouterr().err.splitlines()
    assert sum(": undefined: " in line for line in told) == 10
    assert told[10:] == ([f"t/infer: and {more} more undefined; all are in {server_record(asker.stage)}"] if more else [])
    assert len(lines(asker)[0]["undefined"]) == refused


def test_a_server_that_dies_stops_the_run_and_what_was_answered_is_kept():
    with serving(lambda body, nth: "red" if any(f"is {i}?" in body["messages"][0]["content"] for i in (0, 1)) else (500, "", {})) as server:
        asker = asking(server, 8)
        with pytest.raises(StageError, match="toy at "):
            ask(asker)
    assert len(open_store(asker, {})) == 2 and len(lines(asker)) == 1


def entry(token, logprob=-0.5):
    return {"token": token, "logprob": logprob, "top_logprobs": [{"token": token, "logprob": logprob}]}


def scored(text, logprobs=True):
    content = {"content": [entry(text)]} if logprobs else None
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}, "logprobs": content}
    return (200, json.dumps({"model": "m", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}), {})


LOGPROBS = ["text", "token_logprobs"]


def test_a_run_without_any_log_probabilities_ends_once_and_then_goes_on():
    """Who asks for them in vain is told before paying for all; every answer that is paid for is stored."""
    with serving(lambda body, nth: scored("red", False)) as server:
        asker = asking(server, 40, LOGPROBS, servers={"default": {**IMPATIENT["default"], "concurrency": 4}}, logprobs=2)
        with pytest.raises(StageError, match=r"none of the first 2\d answers has log-probabilities, which .* or run again to go on"):
            ask(asker)
        first = len(server.bodies)
        assert 20 <= first <= 24 and len(open_store(asker, {})) == first
        _, _, left = ask(asking(server, 40, LOGPROBS, logprobs=2))
        assert left.missing == [] and len(server.bodies) == 40


def test_one_answer_with_log_probabilities_shows_that_the_server_gives_them():
    with serving(lambda body, nth: scored("red", "What is 5?" in body["messages"][0]["content"])) as server:
        asker = asking(server, 30, LOGPROBS, logprobs=2)
        _, _, left = ask(asker)
    assert left.missing == [] and asker.stage.counters == {"undefined answer": 29, "answers without the end's log-probability": 1}


CASES = Path(__file__).parents[4] / "shared" / "fixtures" / "cases" / "server-replies"


@pytest.mark.skipif(not CASES.exists(), reason="shared fixtures are not there")
def test_every_odd_reply_of_the_cases_keeps_its_text_and_is_asked_for_once(tmp_path):
    """Forty odd replies in one run: it ends, a rerun asks nothing, and only what is no reply at all was asked for again."""
    source = (CASES / "server.py").read_text().partition("class H(")[0]
    script = {}
    exec(compile(source, "server.py", "exec"), script)
    with (CASES / "data" / "test.csv").open() as file:
        names = [line.partition(",")[0] for line in file][1:]

    def odd(body, nth):
        said = script["reply"](body["messages"][0]["content"].removeprefix("case-").partition(" ")[0], body)
        return 200, said if isinstance(said, bytes) else json.dumps(said), {}

    with serving(odd) as server:

        def asked():
            rows = [sample(name, None, f"case-{name} which colour?") for name in names]
            folder = write_samples(tmp_path / "d", rows, {})
            stage = bare_stage(servers=ONE_BY_ONE)
            model = openai(ModelContext("gpt", settings=stage.settings), model="m", base_url=server.url, logprobs=2)
            return asker_of({"d": folder}, needs=LOGPROBS, model=model, stage=stage)

        cells, store, left = ask(asked())
        assert left.missing == [] and len(server.bodies) == len(names) == 41
        ask(asked())
        assert len(server.bodies) == 41
        rows = {row["sample_id"]: row for row in generations_table(asked(), 0, cells, store).to_pylist()}
    texts = {name: row["text"] for name, row in rows.items()}
    assert {name for name, text in texts.items() if text is None} == {
        "contentfilternull", "finishsafety", "reasoningnull", "nochoices", "error200",
    }  # fmt: skip
    empty = {"nullcontent", "emptycontent", "toolcall"}
    assert {name for name, text in texts.items() if text == ""} == empty
    assert texts["refusalfield"].startswith("I'm sorry") and rows["refusalfield"]["finish"] == "refusal"
    assert (
        texts["contentfilter"] == "The ca" and rows["contentfilter"]["finish"] == "content_filter" and rows["length"]["finish"] == "length"
    )
    assert all(texts[name] == "red" for name in ("neginf", "parts", "finishupper", "finishempty", "finishnull", "usagenull", "usagefloat"))
    undefined = {name for name, row in rows.items() if row["token_logprobs"] is None and row["text"]}
    assert undefined == {
        "refusalfield",
        "logprobsnull",
        "logprobsempty",
        "neg9999",
        "positive",
        "droppedtokens",
        "nan",
        "strlogprob",
        "sse",
    }


def test_money_is_in_the_record_where_it_has_a_price():
    priced = check_servers({"default": {**ONE_BY_ONE["default"], "price": {"input": 1.0, "output": 2.0}}}, "servers")
    with serving(lambda body, nth: completion("red", usage=(10, 5))) as server:
        asker = asking(server, 3, servers=priced)
        ask(asker)
    assert lines(asker)[0]["dollars"] == round(3 * (10 * 1.0 + 5 * 2.0) / 1e6, 6)
    assert lines(asker)[0]["tokens"] == {"sent": 30, "received": 15}
