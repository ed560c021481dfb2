"""Which requests go into a batch, and which replies are taken for which requests."""

import json

import pytest

from qualm.runners.inference.exchange import BatchExchange
from qualm.runners.inference.waiting import Waiting
from qualm.runners.runtime.server_config import Price, Server
from qualm.runners.servers.client import Client, ReplyPendingError
from tests.support.servers.batch_server import batch_serving
from tests.support.servers.small_client import text_of
from tests.support.servers.small_server import completion

BODY = {"model": "m", "messages": [{"role": "user", "content": "What?"}], "max_tokens": 4}


@pytest.fixture
def setting(tmp_path):
    with batch_serving(lambda body, nth: completion(f"{body['max_tokens']}.{nth}", usage=(10, 5) if nth == 0 else None)) as server:
        client = Client("m", "m", server.url, Server(retries=0, pause=0.01, batch=True, price=Price(2.0, 4.0)))
        waiting = Waiting(tmp_path)
        assert waiting.open()
        exchange = BatchExchange(client, waiting, lambda number, part: f"{number % 10} {part}".encode(), "t/infer")
        exchange.items = range(100)
        yield server, exchange
        client.close()


def asked(exchange, number, about, **more):
    try:
        return text_of(exchange.ask(number, about, {**BODY, **more}))
    except ReplyPendingError:
        return None


def test_equal_requests_for_the_same_are_one_and_for_another_part_or_item_are_not(setting):
    _, exchange = setting
    for number, about, longest in [(0, "answer", 4), (10, "answer", 4), (1, "answer", 4), (0, "draw 1", 4), (0, "answer", 5)]:
        assert asked(exchange, number, about, max_tokens=longest) is None
    assert not exchange.waiting.batches, "nothing is sent before it is said"
    exchange.send()
    (batch,) = exchange.needed()
    assert len(batch.keys) == 4 and exchange.client.budget.holds(batch.name)
    assert asked(exchange, 0, "answer") is None and not exchange.is_ready(0) and exchange.is_ready(7)
    assert exchange.poll(batch) and exchange.needed() == []
    assert exchange.is_ready(0)
    texts = [asked(exchange, n, about) for n, about in [(0, "answer"), (10, "answer"), (1, "answer"), (0, "draw 1")]]
    assert texts[0] == texts[1] and len(set(texts)) == 3 and asked(exchange, 0, "answer", max_tokens=5) == "5.0"


def test_money_is_what_the_replies_say_and_the_most_where_they_do_not(setting):
    _, exchange = setting
    for about in "abc":
        asked(exchange, 0, about)
    exchange.send()
    (batch,) = exchange.needed()
    sent = 16 + len("What?")
    assert batch.most == pytest.approx(3 * (sent * 1.0 + 4 * 2.0) / 1e6)
    assert exchange.poll(batch)
    assert batch.dollars == pytest.approx((10 * 1.0 + 5 * 2.0) / 1e6 + batch.most * 2 / 3) == exchange.client.budget.spent
    assert not exchange.client.budget.holds(batch.name) and exchange.client.tokens == {"sent": 10, "received": 5}


def test_what_was_written_and_never_sent_is_forgotten(setting):
    server, exchange = setting
    asked(exchange, 0, "answer")
    exchange.api.upload = lambda path: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        exchange.send()
    (batch,) = exchange.waiting.open_batches()
    assert exchange.client.budget.holds(batch.name)
    exchange.resume()
    assert exchange.waiting.batches == {} and not exchange.client.budget.holds(batch.name) and exchange.client.budget.spent == 0
    assert json.dumps(server.calls) == "[]"
