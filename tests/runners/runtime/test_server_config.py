"""How a server is reached: model over server over default; no key goes to a host that the settings do not name it for."""

import re

import pytest

from qualm.registry.plugins import registry
from qualm.runners.runtime.server_config import Price, Server
from qualm.runners.runtime.settings import Settings, SettingsError, read_settings

API = "https://api.openai.com/v1"
TOML = f"""
workers = 3
[servers.default]
concurrency = 16
timeout = 30
[servers."{API}"]
requests_per_minute = 500
price = {{input = 2.5, output = 10}}
max_spend = 20
[servers."{API}".models."gpt-4o-mini"]
price = {{input = 0.15, output = 0.6}}
[servers."http://lab/v1"]
address = "http://127.0.0.1:8000/v1"
key = "LAB_KEY"
"""


def read(tmp_path, text):
    (tmp_path / "qualm.toml").write_text(text)
    return read_settings(tmp_path / "qualm.toml")


def test_model_over_server_over_default(tmp_path):
    settings = read(tmp_path, TOML)
    assert settings.workers == 3
    large, small = settings.server(API, "gpt-4o"), settings.server(API + "/", "gpt-4o-mini")
    assert (large.concurrency, large.timeout, large.requests_per_minute, large.max_spend) == (16, 30.0, 500.0, 20.0)
    assert (large.price, small.price, small.max_spend) == (Price(2.5, 10.0), Price(0.15, 0.6), 20.0)
    assert settings.server("http://lab/v1", "q") == Server(address="http://127.0.0.1:8000/v1", key="LAB_KEY", concurrency=16, timeout=30.0)


def test_answers_in_batches_cost_half_unless_it_is_said(tmp_path):
    text = f'[servers."{API}"]\nbatch = true\nprice = {{input = 2.5, output = 10}}\n'
    assert read(tmp_path, text).server(API, "m").answer_price == Price(1.25, 5.0)
    own = read(tmp_path, text + "batch_price = {input = 1, output = 2}").server(API, "m")
    assert own.answer_price == Price(1.0, 2.0) and own.price == Price(2.5, 10.0)
    assert read(tmp_path, text.replace("true", "false")).server(API, "m").answer_price == Price(2.5, 10.0)
    assert Server(batch=True).answer_price is None
    with pytest.raises(SettingsError, match="batch_price needs `price` beside it"):
        read(tmp_path, "[servers.default]\nbatch_price = {input = 1, output = 2}").server(API, "m")


def test_a_key_goes_where_it_belongs():
    assert Settings().server(API, "m").key == "OPENAI_API_KEY"
    assert Settings().server("http://127.0.0.1:8000/v1", "m") == Server()
    assert Settings().server("https://api.openai.com.example.org/v1", "m").key == ""
    assert Settings(servers={API: {"address": "http://127.0.0.1:8000/v1"}}).server(API, "m").key == ""


def test_the_documentation_names_what_holds_where_nothing_is_said():
    page = (registry.ROOT / "docs/how-to/servers.md").read_text()
    default = page.partition("[servers.default]")[2].partition("[servers.")[0]
    found = {name: float(value) for name, value in re.findall(r"^(\w+) = .*; (\d+)$", default, re.MULTILINE)}
    assert found.keys() == {"concurrency", "timeout", "deadline", "retries", "pause"}
    assert found == {name: getattr(Server(), name) for name in found}
    assert not any(getattr(Server(), name) for name in ("requests_per_minute", "tokens_per_minute", "max_spend", "image_tokens"))


def test_the_least_that_settings_may_be(tmp_path):
    text = "concurrency = 1\nretries = 0\nmax_spend = 0\nimage_tokens = 0\ntimeout = 0.5\nprice = {input = 0, output = 0.0}"
    found = read(tmp_path, f"[servers.default]\n{text}").server(API, "m")
    assert (found.concurrency, found.retries, found.max_spend, found.image_tokens, found.timeout) == (1, 0, 0.0, 0, 0.5)
    assert found.price == Price(0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[servers.lab]", "servers.lab: expected `default` or the base_url of a spec"),
        ("servers = 3", "servers: expected tables such as"),
        ("[servers.default]\nconcurency = 2", "servers.default.concurency: unknown setting; there are: address, key, concurrency"),
        ("[servers.default]\nconcurrency = 0", "servers.default.concurrency: expected a whole number at least 1 and at most 10,000, got 0"),
        (
            "[servers.default]\nconcurrency = 1.5",
            "servers.default.concurrency: expected a whole number at least 1 and at most 10,000, got 1.5",
        ),
        ("[servers.default]\ntimeout = 0", "servers.default.timeout: expected a number above 0"),
        ("[servers.default]\nmax_spend = -1", "servers.default.max_spend: expected a number at least 0"),
        ("[servers.default]\nmax_spend = nan", "servers.default.max_spend: expected a number at least 0 and at most 10,000,000, got nan"),
        (
            "[servers.default]\nconcurrency = 1_000_000_000",
            "concurrency: expected a whole number at least 1 and at most 10,000, got 1000000000",
        ),
        ("[servers.default]\ntimeout = nan", "timeout: expected a number above 0 and at most 604,800, got nan"),
        ("[servers.default]\npause = inf", "pause: expected a number above 0 and at most 604,800, got inf"),
        ("[servers.default]\nrequests_per_minute = nan", "requests_per_minute: expected a number at least 0 and at most .*, got nan"),
        ("[servers.default]\nprice = {input = inf, output = 1}", "price: expected .* each a number at least 0 and at most 10,000,000, got"),
        ("[servers.default]\nprice = {input = nan, output = 1}", "servers.default.price: expected"),
        ("[servers.default]\nbatch = 1", "servers.default.batch: expected true or false, got 1"),
        ("[servers.default]\nbatch_price = 3", r"servers.default.batch_price: expected \{input = DOLLARS, output = DOLLARS\}"),
        ("[servers.default]\nprice = 3", r"servers.default.price: expected \{input = DOLLARS, output = DOLLARS\}"),
        ("[servers.default]\nprice = {input = 1}", "servers.default.price: expected"),
        ("[servers.default]\nprice = {input = 1, output = -1}", "servers.default.price: expected"),
        ("[servers.default]\nprice = {input = 1, output = 1, picture = 1}", "servers.default.price: expected"),
        ("[servers.default]\npause = 0", "servers.default.pause: expected a number above 0 and at most 604,800, got 0"),
        ("[servers.default]\nretries = -1", "servers.default.retries: expected a whole number at least 0 and at most 1,000, got -1"),
        ("[servers.default.models]\nm = 1", "servers.default.models: expected a table per model"),
        ("[servers.default.models.m]\nprize = 1", "servers.default.models.m.prize: unknown setting"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    with pytest.raises(SettingsError, match=message):
        read(tmp_path, text)


def test_a_cap_needs_a_price(tmp_path):
    settings = read(tmp_path, "[servers.default]\nmax_spend = 5.0")
    with pytest.raises(SettingsError, match=r"max_spend needs `price = .*per million tokens of m"):
        settings.server("http://lab/v1", "m")
