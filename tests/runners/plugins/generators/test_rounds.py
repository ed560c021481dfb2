from collections import Counter
from types import SimpleNamespace

from qualm.runners.contracts.generators import Reply, UnusableReply, chat
from qualm.runners.plugins.generators._rounds import in_rounds


class Generator:
    """Says what a script says of each text in each round."""

    def __init__(self, **script):
        self.script, self.counters, self.asked = script, Counter(old=5), []
        self.engine = SimpleNamespace(name="the engine")

    def complete(self, prompts, *, max_new_tokens, temperature, seeds):
        texts = [prompt[0].text for prompt in prompts]
        self.asked.append((texts, seeds, max_new_tokens, temperature))
        self.counters["asked"] += len(texts)
        return [self.script[text].pop(0) for text in texts]


class Context:
    def __init__(self, seed=7, label="ours"):
        self.seed, self.label, self.counters, self.notes, self.dropped = seed, label, Counter(), {}, Counter()

    def drop(self, reason, count=1):
        self.dropped[reason] += count


def read(key, text):
    if text == "bad":
        raise UnusableReply("malformed")
    return f"{key}: {text}"


def run(generator, context, retries=2):
    chats = {key: chat(key) for key in generator.script}
    return in_rounds(context, generator, chats, read, retries=retries, temperature=0.5, max_new_tokens=9)


def test_what_cannot_be_used_is_asked_again_and_dropped_by_its_last_reason():
    good, bad, cut, none = Reply("good"), Reply("bad"), Reply("half", "length"), Reply(None, "rejected")
    generator, context = Generator(a=[good], b=[bad, cut, good], c=[cut, bad, none]), Context()
    assert run(generator, context) == {"a": "a: good", "b": "b: good"}
    assert [texts for texts, *_ in generator.asked] == [["a", "b", "c"], ["b", "c"], ["b", "c"]]
    assert context.dropped == {"no reply": 1} and context.counters == {"asked": 7} and context.notes == {"generator": "the engine"}
    assert {tuple(rest) for _, _, *rest in generator.asked} == {(9, 0.5)}


def test_without_retries_everything_is_asked_once():
    context = Context()
    assert run(Generator(a=[Reply("half", "length")]), context, retries=0) == {} and context.dropped == {"reply cut off": 1}


def test_each_try_has_a_seed_of_its_own_of_31_bits():
    def seeds(**changes):
        generator = Generator(a=[Reply("bad")] * 3, b=[Reply("bad")] * 3)
        run(generator, Context(**changes))
        return [seed for _, found, *_ in generator.asked for seed in found]

    assert len(set(seeds())) == 6 and all(0 <= seed < 2**31 for seed in seeds())
    assert seeds() == seeds() and not set(seeds()) & set(seeds(seed=8)) and not set(seeds()) & set(seeds(label="x"))
