"""A language model of twenty words behind a real HTTP server: every probability it shows can be worked out again from here."""

import hashlib
import json
import re
from functools import lru_cache

import numpy as np

from tests.support.servers.small_server import serving

END = "<end>"
WORDS = ["red", " red", "blue", " blue", " cube", "yes", " Yes", "no", " No", "True", "False", "Hm", "A", " A", *"BCDEF", END]
_TOKEN = re.compile("|".join(sorted(map(re.escape, WORDS), key=len, reverse=True)))


def logits(messages, said):
    """Of the next word, given the conversation (pictures included) and what was said: no rule, but always the same."""
    return _logits(hashlib.sha256(json.dumps([messages, said], sort_keys=True).encode()).digest(), len(said))


@lru_cache(2**14)
def _logits(seed, words):
    made = np.random.default_rng(list(seed)).normal(0, 2, len(WORDS))
    made[WORDS.index(END)] = -2 + 2 * words
    made.setflags(write=False)
    return made


def logprobs(messages, said, temperature=1.0):
    scaled = logits(messages, said) / temperature
    return scaled - scaled.max() - np.log(np.exp(scaled - scaled.max()).sum())


class Toy:
    """A script for `serving`. What it takes and shows is up to the test."""

    def __init__(self, takes_n=True, offers=True, scaled=False, shows_end=True, scores_prompts=True, usage=True, trouble=None):
        self.takes_n, self.offers, self.scaled, self.shows_end = takes_n, offers, scaled, shows_end
        self.scores_prompts, self.usage, self.trouble = scores_prompts, usage, trouble
        self._fresh = 0

    def __call__(self, body, nth):
        found = self.trouble(body, nth) if self.trouble else None
        if found is not None:
            return found
        if not self.takes_n and "n" in body:
            return 422, '{"detail": "n is not supported"}', {}
        if not self.offers and "logprobs" in body:
            return 400, '{"error": {"message": "logprobs are not supported"}}', {}
        temperature, made = body.get("temperature", 1.0), []
        for draw in range(body.get("n", 1)):
            self._fresh += 1
            seed = body.get("seed", self._fresh * 1000 + draw)
            made.append(self._choice(body, draw, temperature, np.random.default_rng(seed)))
        answer = {"id": "c", "object": "chat.completion", "created": 0, "model": "toy-1", "system_fingerprint": "fp_7", "choices": made}
        if self.usage:
            longest = max(len(c["token_ids"]) for c in made)
            answer["usage"] = {"prompt_tokens": 50, "completion_tokens": longest, "total_tokens": 50 + longest}
        if "prompt_logprobs" in body and self.scores_prompts:
            answer["prompt_logprobs"] = self._scored(body["messages"])
        return 200, json.dumps(answer), {}

    def _choice(self, body, index, temperature, rng):
        said, content = [], []
        longest = body.get("max_tokens") or body["max_completion_tokens"]
        while len(said) < longest and (not said or said[-1] != END):
            plain = logprobs(body["messages"], said)
            drawn = plain if not temperature else logprobs(body["messages"], said, temperature)
            word = int(plain.argmax()) if not temperature else int(rng.choice(len(WORDS), p=np.exp(drawn)))
            shown = drawn if self.scaled and temperature else plain
            order = np.argsort(-shown)[: body.get("top_logprobs", 0)]
            tops = [{"token": WORDS[i], "logprob": float(shown[i]), "bytes": None} for i in order]
            content.append({"token": WORDS[word], "logprob": float(shown[word]), "bytes": None, "top_logprobs": tops})
            said.append(WORDS[word])
        text = "".join(w for w in said if w != END)
        ended = said[-1] == END
        if ended and not self.shows_end:
            content = content[:-1]
        choice = {"index": index, "finish_reason": "stop" if ended else "length", "message": {"role": "assistant", "content": text}}
        choice["logprobs"] = {"content": content} if body.get("logprobs") else None
        return {**choice, "token_ids": [WORDS.index(w) for w in said]}

    @staticmethod
    def _scored(messages):
        """Three tokens of a template, the answer's own, its end, and a line feed."""
        talk, text = messages[:-1], messages[-1]["content"]
        said = [*_TOKEN.findall(text), END]
        own = [{str(WORDS.index(w)): {"logprob": float(logprobs(talk, said[:i])[WORDS.index(w)])}} for i, w in enumerate(said)]
        return [None, {"900": {"logprob": -1.0}}, {"901": {"logprob": -0.5}}, *own, {"902": {"logprob": -3.0}}]


def toy_serving(**how):
    return serving(Toy(**how))
