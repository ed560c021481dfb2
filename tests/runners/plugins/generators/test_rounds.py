from collections import Counter
from types import SimpleNamespace

import pytest

from qualm.runners.contracts.generators import GeneratorError, NoPairError, Reply, chat
from qualm.runners.plugins.generators._rounds import ATTEMPTS, FIRST, GenerationRounds, ask_in_rounds, check_dropped_share


class Generator:
    """Says what a script says of each text in each round."""

    def __init__(self, **script):
        self.script, self.counters, self.asked = script, Counter(old=5), []
        self.items_read, self.items_dropped = 0, Counter()
        self.engine = SimpleNamespace(name="the engine")

    def complete(self, prompts, *, max_new_tokens, temperature, seeds, parts):
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
        raise NoPairError("malformed")
    return f"{key}: {text}"


def run(generator, context, attempts=3):
    chats = {key: chat(key) for key in generator.script}
    return ask_in_rounds(context, generator, chats, read, GenerationRounds(attempts, 0.5, 9))


def test_what_cannot_be_used_is_asked_again_and_dropped_by_its_last_reason():
    good, bad, cut, none = Reply("good"), Reply("bad"), Reply("half", "length"), Reply(None, "rejected")
    generator, context = Generator(a=[good], b=[bad, cut, good], c=[cut, bad, none]), Context()
    assert run(generator, context) == {"a": "a: good", "b": "b: good"}
    assert [texts for texts, *_ in generator.asked] == [["a", "b", "c"], ["b", "c"], ["b", "c"]]
    assert context.dropped == {"no reply": 1} and context.counters == {"asked": 7} and context.notes == {"generator": "the engine"}
    assert {tuple(rest) for _, _, *rest in generator.asked} == {(9, 0.5)}


def test_with_one_attempt_everything_is_asked_once():
    context = Context()
    assert run(Generator(a=[Reply("half", "length")]), context, attempts=1) == {} and context.dropped == {"reply cut off": 1}


def test_each_try_has_a_seed_of_its_own_of_31_bits():
    def seeds(**changes):
        generator = Generator(a=[Reply("bad")] * 3, b=[Reply("bad")] * 3)
        run(generator, Context(**changes))
        return [seed for _, found, *_ in generator.asked for seed in found]

    assert len(set(seeds())) == 6 and all(0 <= seed < 2**31 for seed in seeds())
    assert seeds() == seeds() and not set(seeds()) & set(seeds(seed=8)) and not set(seeds()) & set(seeds(label="x"))


def many(n, *replies):
    return Generator(**{f"k{i:03}": list(replies) for i in range(n)})


def test_where_nothing_can_be_used_the_rest_is_not_bought():
    generator, context = many(500, *[Reply("bad")] * ATTEMPTS), Context()
    with pytest.raises(GeneratorError, match=r"first 32 items .* in 2 attempts \(malformed: 32\); the rest was not"):
        run(generator, context, attempts=ATTEMPTS)
    assert generator.counters["asked"] == FIRST * ATTEMPTS


def test_a_few_items_and_those_after_a_success_are_dropped_and_end_nothing():
    context = Context()
    assert run(many(FIRST, *[Reply("bad")] * 2), context, attempts=2) == {} and context.dropped == {"malformed": FIRST}
    generator = many(200, *[Reply("bad")] * 2)
    generator.items_read = 1  # an earlier batch was of use
    assert run(generator, Context(), attempts=2) == {} and generator.counters["asked"] == 400


def test_one_good_reply_among_the_first_lets_all_be_asked():
    generator, context = many(100, Reply("bad"), Reply("bad")), Context()
    generator.script["k031"] = [Reply("bad"), Reply("good")]
    assert run(generator, context, attempts=2) == {"k031": "k031: good"}
    assert generator.counters["asked"] == 200 and context.dropped == {"malformed": 99}


def test_a_declared_share_of_dropped_items_ends_the_run():
    generator = many(10, Reply("bad"))
    generator.script["k000"] = [Reply("good")]
    run(generator, Context(), attempts=1)
    check_dropped_share(generator, 0.9)
    with pytest.raises(GeneratorError, match=r"9 of 10 items were dropped \(malformed: 9\), more than `most_dropped: 0.8` allows"):
        check_dropped_share(generator, 0.8)
    check_dropped_share(many(3), 0.0)  # nothing was asked: nothing was dropped
