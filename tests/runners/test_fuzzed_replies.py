"""A bounded run of `tests.bench.fuzz_replies`: hostile replies leave an answer that can be, or one of the client's own exceptions."""

import pytest

import qualm.runners.servers.transport
from tests.bench import fuzz_replies


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv(fuzz_replies.VARIABLE, fuzz_replies.KEY)
    monkeypatch.setattr(
        qualm.runners.servers.transport, "BoundedTransport", qualm.runners.servers.transport.BoundedTransport
    )  # put back what the run takes away


@pytest.mark.slow
def test_handed_over():
    outcomes = fuzz_replies.handed_over(400, seed=1)
    assert outcomes["answer"] > 140 and outcomes["UnusableReplyError"] > 60 and sum(outcomes.values()) == 400


@pytest.mark.slow
def test_over_http():
    outcomes = fuzz_replies.over_http(40, seed=1)
    assert sum(outcomes.values()) == 40 and outcomes["answer"]
