"""Checks of numbers: a healthy model passes each, and what is changed in its answers by hand is found, at the size it has."""

import math
from dataclasses import replace

import pytest
import torch

from qualm.runners.contracts.models import ANSWER, ModelError, draw_part
from qualm.runners.inference import check_numbers as numbers
from qualm.runners.inference.audit import distance
from qualm.runners.inference.check_cases import Case, text_cases
from qualm.runners.inference.check_model import checks
from qualm.runners.inference.model_under_test import ModelUnderTest
from tests.support.models.loaded import loaded_model
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import FAMILIES

INF, NAN = math.inf, math.nan
FIRST = picture(0, (40, 30))
CASES = [
    Case("What color is the cube ?", FIRST, "first", 1),
    Case("What ?", picture(1), "second", 2),
    Case("How many big red objects are there ?", FIRST, "first", 3),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return loaded_model(FAMILIES["llava"](tmp_path_factory.mktemp("llava")))


@pytest.fixture
def under_test(model):
    return ModelUnderTest(model, CASES)


@pytest.mark.parametrize("name", numbers.CHECKS)
def test_a_healthy_model_passes_every_check_under_its_own_name(under_test, name):
    found = numbers.CHECKS[name](under_test)
    assert (found.check, found.verdict, found.advice) == (name, "ok", ""), found
    assert "worst" not in found.numbers or found.numbers["worst"] < 1e-4


@pytest.mark.parametrize("name", ["image matters", "image tokens", "image divergence"])
def test_without_an_image_to_ask_about_checks_of_images_are_skipped(model, name):
    found = checks()[name](ModelUnderTest(model, text_cases(3)))
    assert (found.check, found.verdict) == (name, "skip") and "no question has exactly one image" in found.found


@pytest.mark.parametrize(("a", "b", "apart"), [(1.0, 3.5, 2.5), (NAN, NAN, 0.0), (NAN, 1.0, INF), (-INF, -INF, 0.0), (-INF, 0.0, INF)])
def test_how_far_two_numbers_are_apart(a, b, apart):
    assert distance(a, b) == apart == distance(b, a)


def test_how_far_two_distributions_are_apart_among_what_is_likely_in_either():
    a = torch.tensor([0.0, 0.0, -30.0], dtype=torch.double)
    assert numbers._largest_difference(a, a) == 0.0 and numbers._largest_difference(a, a + 5) == pytest.approx(0.0, abs=1e-12)
    assert numbers._largest_difference(a, torch.tensor([0.0, 0.0, -20.0], dtype=torch.double)) == pytest.approx(0.0, abs=1e-6), (
        "unlikely in both"
    )
    b = torch.tensor([0.0, -1.0, -30.0], dtype=torch.double)
    by_hand = max(abs(math.log(0.5) - math.log(1 / (1 + math.exp(-1)))), abs(math.log(0.5) + 1 + math.log(1 + math.exp(-1))))
    assert numbers._largest_difference(a, b) == pytest.approx(by_hand)
    assert numbers._largest_difference(torch.tensor([NAN, 0.0]), torch.tensor([0.0, 0.0])) == INF, "not a number is far from any"
    rare = torch.tensor([0.0, -8.0], dtype=torch.double)
    assert numbers._largest_difference(rare, torch.tensor([0.0, -12.0], dtype=torch.double)) == pytest.approx(4.0, abs=0.01), (
        "likely enough in one"
    )


def test_text_behind_the_last_mark_of_a_picture(under_test):
    mark = under_test.model.tokenizer.convert_tokens_to_ids("<image>")
    assert [numbers._tokens_after_image(under_test, ids) for ids in ([9, mark, 8, 7], [9, 8], [mark], [mark, 9, mark, 8])] == [2, 2, 0, 1]


def changed(under_test, row, part, **fields):
    """The baseline with a part of one answer changed."""
    under_test.baseline[row][part] = replace(under_test.baseline[row][part], **fields)
    return under_test


@pytest.mark.parametrize(("by", "verdict"), [(0.005, "warn"), (0.5, "fail")])
@pytest.mark.parametrize("field", ["logprobs", "entropies"])
def test_a_number_of_an_answer_that_is_off(under_test, field, by, verdict):
    part = under_test.baseline[1][ANSWER]
    found = numbers.log_probabilities(changed(under_test, 1, ANSWER, **{field: [value + by for value in getattr(part, field)]}))
    assert found.verdict == verdict and found.numbers["worst"] == pytest.approx(by, abs=1e-4) and "do not use" in found.advice


def test_a_token_that_is_not_the_likeliest(under_test):
    part = under_test.baseline[0][ANSWER]
    logits = under_test.plain.logits(under_test.request(CASES[0]).prompt, CASES[0].image)[0]
    worst = int(logits.argmin())
    found = numbers.greedy(changed(under_test, 0, ANSWER, tokens=[worst, *part.tokens[1:]]))
    assert found.verdict == "fail" and found.numbers["worst"] >= float(logits.max() - logits.min()) - 1e-4


def test_a_draw_that_its_number_does_not_choose(under_test):
    part = under_test.baseline[2][draw_part(2)]
    likeliest = int(under_test.plain.logits(under_test.request(CASES[2]).prompt, CASES[2].image)[0].argmin())
    assert numbers.draws(changed(under_test, 2, draw_part(2), tokens=[likeliest, *part.tokens[1:]])).verdict == "fail"
    under_test.baseline[2][draw_part(2)] = replace(part, logprobs=[value - 0.005 for value in part.logprobs])
    found = numbers.draws(under_test)
    assert found.verdict == "warn" and found.numbers["worst"] == pytest.approx(0.005, abs=1e-4)


def test_batches_are_of_one_and_of_two(under_test, monkeypatch):
    answers, sizes = under_test.answers, []
    monkeypatch.setattr(under_test, "answers", lambda requests: sizes.append(len(requests)) or answers(requests))
    assert under_test.baseline and numbers.batches(under_test).verdict == "ok"
    assert sizes[-5:] == [1, 1, 1, 2, 1]


def test_batches_that_change_answers(under_test):
    part = under_test.baseline[0][ANSWER]
    found = numbers.batches(changed(under_test, 0, ANSWER, tokens=[*part.tokens, 5]))
    assert found.verdict == "fail" and found.numbers["differ"] == 2 and found.numbers["answers"] == 18, (
        "alone and in twos, three answers each"
    )
    under_test.baseline[0][ANSWER] = replace(part, logprobs=[value + 0.005 for value in part.logprobs])
    found = numbers.batches(under_test)
    assert found.verdict == "warn" and found.numbers["worst"] == pytest.approx(0.005, abs=1e-4) and found.numbers["differ"] == 0
    under_test.baseline[0][ANSWER] = replace(part, logprobs=[value + 0.5 for value in part.logprobs])
    assert numbers.batches(under_test).verdict == "fail"


def test_a_sampled_token_at_the_edge_of_its_interval_is_rounding(under_test):
    part = under_test.baseline[0][draw_part(1)]
    moved = changed(under_test, 0, draw_part(1), tokens=[*part.tokens[:-1], part.tokens[-1] + 1])
    found = numbers.batches(moved)
    assert found.verdict == "warn" and found.numbers["differ"] == 2 and found.advice.startswith("rounding: ")
    for draw in (1, 2):  # more than rounding explains
        for row in range(2):
            part = under_test.baseline[row][draw_part(draw)]
            changed(under_test, row, draw_part(draw), tokens=[*part.tokens[:-1], part.tokens[-1] + 1])
    assert numbers.batches(under_test).verdict == "fail"


def test_at_another_dtype_answers_may_differ(under_test, monkeypatch):
    part = under_test.baseline[0][ANSWER]
    monkeypatch.setattr(under_test.model, "dtype", "bfloat16")
    found = numbers.batches(changed(under_test, 0, ANSWER, tokens=[*part.tokens, 5]))
    assert found.verdict == "warn" and "--drift" in found.advice


def shifted(under_test, monkeypatch, name, change):
    """The parts of one signal with something changed in each."""
    plain = under_test.part

    def part(*parts):
        return [{n: change(p) if n == name else p for n, p in of.items()} for of in plain(*parts)]

    monkeypatch.setattr(under_test, "part", part)
    return under_test


def lower(part):
    return replace(part, logprobs=[value - 0.005 for value in part.logprobs])


@pytest.mark.parametrize("name", ["without_image", "without_question", "without_both"])
def test_a_prior_that_is_off(under_test, monkeypatch, name):
    found = numbers.priors(shifted(under_test, monkeypatch, name, lower))
    assert found.verdict == "warn" and found.numbers["worst"] == pytest.approx(0.005, abs=1e-4)


def test_priors_that_cannot_be_had(under_test, monkeypatch):
    plain = under_test.part

    def part(*parts):
        if "without_image" in parts or "image_divergence" in parts:
            raise ModelError("it wants a picture")
        return plain(*parts)

    monkeypatch.setattr(under_test, "part", part)
    found = numbers.priors(under_test)
    assert (found.verdict, found.found) == ("warn", "cannot be had: without_image (it wants a picture)")
    found = numbers.divergence(under_test)
    assert (found.verdict, found.found) == ("warn", "cannot be had (it wants a picture)")


def test_a_divergence_that_is_off(under_test, monkeypatch):
    """Above one nat by its share: rounding grows with what is rounded."""
    told = [value for parts in under_test.part("image_divergence") for value in parts["image_divergence"].logprobs or []]
    found = numbers.divergence(shifted(under_test, monkeypatch, "image_divergence", lower))
    assert max(told) > 1
    assert found.verdict == "warn" and found.numbers["worst"] == pytest.approx(max(0.005 / max(1, value) for value in told), abs=1e-4)


def test_a_reply_about_confidence_that_is_off(under_test, monkeypatch):
    found = numbers.said_confidence(shifted(under_test, monkeypatch, "said_confidence", lower))
    assert found.verdict == "warn" and found.numbers["worst"] == pytest.approx(0.005, abs=1e-4)


@pytest.mark.parametrize("name", ["p_yes", "p_true", "p_true_sampling"])
def test_a_share_that_is_off_or_gone(under_test, monkeypatch, name):
    with monkeypatch.context() as patch:
        found = numbers.own_answer(shifted(under_test, patch, name, lambda p: replace(p, numbers=[p.numbers[0] + 0.005])))
    assert found.verdict == "warn" and found.numbers["worst"] == pytest.approx(0.005, abs=1e-4)
    found = numbers.own_answer(shifted(under_test, monkeypatch, name, lambda p: replace(p, numbers=[])))
    assert found.verdict == "fail" and found.found.startswith(f"{name} is None by continuation and ")


def test_options_that_are_off(under_test, monkeypatch):
    plain = under_test.answers

    def answers(requests):
        return [{n: replace(p, numbers=[p.numbers[0] + 0.5, *p.numbers[1:]]) for n, p in of.items()} for of in plain(requests)]

    monkeypatch.setattr(under_test, "answers", answers)
    assert numbers.options(under_test).verdict == "fail"


def test_logits_that_are_no_numbers_are_counted(under_test, monkeypatch):
    monkeypatch.setattr(under_test.plain, "logits", lambda prompt, image, tokens=(): torch.tensor([[1.0, NAN, -INF, -3.0]]))
    assert numbers.finite(under_test).found == "2 of 4 logits are NaN or infinite at float32"
    monkeypatch.setattr(under_test.plain, "logits", lambda prompt, image, tokens=(): torch.tensor([[1.0, -3.0]]))
    assert numbers.finite(under_test).found == "all 2 logits are finite at float32, the largest 3"


@pytest.mark.parametrize(("change", "verdict"), [(0.0, "fail"), (0.0009, "fail"), (0.0011, "ok")])
def test_a_picture_must_change_something(under_test, monkeypatch, change, verdict):
    seen = []
    both = iter((torch.zeros(1, 2, dtype=torch.double), torch.tensor([[change * 2, 0.0]], dtype=torch.double)))
    monkeypatch.setattr(under_test.plain, "logits", lambda prompt, image, tokens=(): seen.append(image) or next(both))
    assert numbers.image_matters(under_test).verdict == verdict
    assert seen[0].size == seen[1].size and seen[0].getpixel((3, 0)) == tuple(255 - v for v in seen[1].getpixel((3, 29)))
