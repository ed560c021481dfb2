"""Servers as their public API descriptions say they answer: exchanges written by hand, replayed by a real HTTP server.

`exchanges/NAME.json`: the fields that a request may have (`takes`), what becomes of `others` (ignored or refused), how many answers one
request may ask for, a reply in the server's own shape, the log-probabilities that it adds, and what it says where it refuses.
"""

import copy
import json
from pathlib import Path

from tests.support.servers.small_server import serving

FOLDER = Path(__file__).parent / "exchanges"


class Recorded:
    """A script for `serving`. `unasked` collects fields that the description does not have."""

    def __init__(self, name):
        self.exchange = json.loads((FOLDER / f"{name}.json").read_text())
        self.unasked = set()

    def __call__(self, body, nth):
        record = self.exchange
        others = set(body) - set(record["takes"])
        self.unasked |= others
        many = body.get("n", 1) > record["most_answers"] and not record.get("ignores_n")
        too_many = body.get("top_logprobs", 0) > record["top"] and "top_logprobs" in record["takes"]
        if many or too_many or (others and record["others"] == "refused"):
            return 400, json.dumps(record["refused"]), {}
        reply = copy.deepcopy(record["reply"])
        reply["model"] = body["model"]
        (choice,) = reply["choices"]
        shown = record["logprobs"] if body.get("logprobs") and "logprobs" in record["takes"] else None
        if shown is not None:
            choice["logprobs"] = self._logprobs(body)
        if body.get("max_tokens") == 1:
            choice["message"]["content"], choice["finish_reason"] = "A", "length"
        if "token_ids" in record and body.get("return_token_ids"):
            choice["token_ids"] = record["token_ids"]
        if "prompt_logprobs" in body and "prompt_logprobs" in record["takes"]:
            reply["prompt_logprobs"] = record["prompt_logprobs"]
        answers = 1 if record.get("ignores_n") else body.get("n", 1)
        reply["choices"] = [{**copy.deepcopy(choice), "index": i} for i in range(answers)]
        return 200, json.dumps(reply), {}

    def _logprobs(self, body):
        shown = copy.deepcopy(self.exchange["logprobs"])
        shown["content"] = shown["content"][: body.get("max_tokens", 2)]
        for entry in shown["content"]:
            entry["top_logprobs"] = entry["top_logprobs"][: body.get("top_logprobs", 0)]
        return shown


def recorded_serving(name):
    return serving(Recorded(name))
