"""A judge that asks a language model, asked against a small server."""

from qualm.registry.plugins import registry
from qualm.runners.contracts.judges import JudgeContext
from qualm.runners.runtime.settings import Settings
from tests.support.servers.small_server import IMPATIENT

SETTINGS = Settings(progress=False, device="cpu", servers=IMPATIENT)


def ask(server, name, *columns, **args):
    """Its judgements of columns of answers, with the marks that it declares or none, and its context."""
    context = JudgeContext(SETTINGS)
    by = {"plugin": "openai", "args": {"model": "m", "base_url": server.url}}
    made = registry.load("judges", name)(context, *columns, by=by, **args)
    assert {frozenset(one.marks) for one in made} <= {frozenset(), frozenset(registry.get("judges", name).declares["MARKS"])}
    return made, context


def prompt_of(body):
    return body["messages"][0]["content"]
