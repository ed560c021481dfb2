from collections import Counter

import numpy as np
import pytest

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators import claim_conditioned_probability as module
from qualm.runners.plugins.estimators.claim_conditioned_probability import claim_conditioned_probability as ccp
from qualm.runners.runtime.settings import Settings
from tests.support.models.tiny_nli import Answered, Told

LOGITS = {"entail": (2.0, 0.0, -1.0), "neutral": (0.0, 1.0, 0.5), "contra": (-1.0, 0.0, 0.5)}
WORDS = ["red", "crimson", "blue", "the", "cu", "7"]


def told(**known):
    """Verdicts by `premise_hypothesis`."""
    return Told({tuple(pair.split("_")): LOGITS[verdict] for pair, verdict in known.items()})


EXAMPLE = {
    "red_crimson": "entail", "crimson_red": "neutral", "red_blue": "contra", "blue_red": "contra",
    "red_the": "entail", "the_red": "contra",
}  # fmt: skip
TOPS = [np.log([0.6, 0.2, 0.1, 0.1])]
TOKENS = [["red", " crimson", " blue.", " the"]]


def test_worked_example():
    (value,) = ccp(Answered(told(**EXAMPLE)), [TOPS], [TOKENS])
    assert value == pytest.approx(1 - 0.8 / 0.9) == pytest.approx(0.111111, abs=1e-6)
    assert ccp(Answered(told(**EXAMPLE)), [TOPS], [TOKENS], form="log")[0] == pytest.approx(-np.log(0.8 / 0.9))
    assert ccp(Answered(told(**EXAMPLE)), [TOPS], [TOKENS], k=2)[0] == 0, "both of the two likeliest entail each other"


def as_lm_polygraph(answer, verdict):
    """Its class of this name, from the alternatives and what its NLI model says of each pair: minus the product of the tokens' shares."""
    product = 1.0
    for position in answer:
        mass = Counter()
        for number, (token, logprob) in enumerate(position):
            said = {verdict[position[0][0], token], verdict[token, position[0][0]]} - {"neutral"}
            mass["entail" if number == 0 else said.pop() if len(said) == 1 else "neutral"] += np.exp(logprob)
        product *= mass["entail"] / (mass["entail"] + mass["contra"])
    return -product


def test_it_is_lm_polygraphs_plus_1(monkeypatch):
    rng = np.random.default_rng(3)
    verdict = {(a, b): str(rng.choice(["entail", "neutral", "contra"])) for a in WORDS for b in WORDS}
    verdict |= {(a, a): "entail" for a in WORDS} | {pair: "neutral" for a in WORDS for pair in (("", a), (a, ""))} | {("", ""): "entail"}
    answers = []
    for _ in range(60):
        lengths = rng.integers(1, 6)
        answers.append([sorted(zip(rng.choice([*WORDS, ""], 10), -rng.exponential(size=10), strict=True), key=lambda t: -t[1])
                        for _ in range(lengths)])  # fmt: skip
    expected = [as_lm_polygraph(answer, verdict) + 1 for answer in answers]
    assert len({round(value, 6) for value in expected}) > 50
    monkeypatch.setattr(module, "CHUNK", 7)
    found = ccp(
        Answered(Told({pair: LOGITS[said] for pair, said in verdict.items()})),
        [[np.array([p for _, p in position]) for position in answer] for answer in answers],
        [[[f" {token}," for token, _ in position] for position in answer] for answer in answers],
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_no_pair_is_asked_that_rules_decide_and_each_only_once():
    model = told(**EXAMPLE)
    ccp(Answered(model), [TOPS, [*TOPS, np.log([0.5, 0.5])]], [TOKENS, [*TOKENS, ["", "."]]])
    assert sorted(model.asked) == sorted(model.known)


def test_beginnings_of_the_answer_are_compared_where_that_is_asked_for():
    pairs = {
        ("a red", "a blue"): "contra",
        ("a blue", "a red"): "contra",
        ("a red cube", "a red"): "entail",
        ("a red", "a red cube"): "neutral",
    }
    model = Told({pair: LOGITS[said] for pair, said in pairs.items()})
    tops = [np.log([0.9, 0.1]), np.log([0.5, 0.25]), np.log([0.7, 0.3])]
    tokens = [["a", ""], [" red", " blue"], [" cube", ""]]
    (value,) = ccp(Answered(model), [tops], [tokens], compared="beginnings")
    assert value == pytest.approx(1 - 0.5 / 0.75) and sorted(model.asked) == sorted(pairs)


def test_function_words_of_the_answer_are_skipped_where_that_is_asked_for():
    context = EstimatorContext(Settings(progress=False), Counter())
    tops = [np.log([0.5, 0.25])] * 2
    tokens = [["Under", " over"], [" red", " blue"]]
    compared, skipped = (ccp(context, [tops], [tokens], function_words=choice)[0] for choice in ("compared", "skipped"))
    assert compared == pytest.approx(1 - (0.5 / 0.75) ** 2) and skipped == pytest.approx(1 - 0.5 / 0.75)


def test_undefined_without_tokens_or_alternatives_and_where_texts_and_probabilities_disagree():
    model = Answered(told(**EXAMPLE))
    values = ccp(model, [[], TOPS, [np.log([0.6])], TOPS, [np.empty(0)]], [[], [["red", "blue"]], [["red"]], TOKENS * 2, [[]]])
    assert np.isnan(values).all() and len(values) == 5


def test_long_answers_differ_by_the_logarithm_alone():
    context = EstimatorContext(Settings(progress=False), Counter())
    tops, tokens = np.log([0.5, 0.49]), ["red", "blue"]
    answers = [[tops] * 80, [tops] * 160], [[tokens] * 80, [tokens] * 160]
    assert ccp(context, *answers).tolist() == pytest.approx([1.0, 1.0], abs=1e-15)
    assert ccp(context, *answers, form="log") == pytest.approx(np.array([80, 160]) * np.log(0.99 / 0.5))
