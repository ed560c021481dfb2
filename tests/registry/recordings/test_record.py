import hashlib
import math
from pathlib import Path

import pytest

from qualm.registry.recordings import lm_eval
from qualm.registry.recordings.record import (
    CHECKS,
    ReadOptions,
    Record,
    blind_id,
    drop_impossible,
    excerpt,
    letter_index,
    short_fields,
    texts,
    verdict,
)
from qualm.registry.recordings.signals import LISTS, NUMBERS


@pytest.mark.parametrize(
    "value, found",
    [
        ("a", ("a",)),
        (["a", None, 2], ("a", "2")),
        (None, ()),
        (3.5, ("3.5",)),
        ("['a', 2]", ("a", "2")),
        ('["a"]', ("a",)),
        ("[]", ("[]",)),
        ("[a]", ("[a]",)),
        ("[[1]]", ("[[1]]",)),
        ("['a'", ("['a'",)),
        (("x",), ("x",)),
    ],
)
def test_targets_as_texts(value, found):
    assert texts(value) == found


@pytest.mark.parametrize(
    "value, n, place", [("B", 2, 1), (" (b). ", 2, 1), ("C", 2, None), ("AB", 9, None), ("", 2, None), ("1", 9, None), ("Z", 26, 25)]
)
def test_places_of_letters(value, n, place):
    assert letter_index(value, n) == place


def test_every_text_of_a_record():
    record = Record(
        "w", "id", "q", "p", ("c",), 0, "doubt", ("r",), "cat", "split", {"k": "v"}, draws=[{"text": "t", "n": 1.0}, {"text": None}]
    )
    assert list(record.texts()) == ["id", "q", "p", "cat", "split", "c", "r", "k", "v", "t"]


def test_fields_worth_slicing_by():
    values = {"a": 1, "b": "x", "c": [1], "d": "", "e": "y" * 80, "f": "y" * 81, "g": float("nan"), "h": 0.5, "i": None, "j": True}
    assert short_fields(values, but=["b"]) == {"a": "1", "e": "y" * 80, "h": "0.5", "j": "True"}


def test_values_in_messages_are_short():
    assert len(excerpt("x" * 1000)) < 50 and excerpt([1, 2]) == "[1, 2]"


def test_every_number_of_a_recording_is_checked():
    assert set(CHECKS) == {*LISTS, *NUMBERS}


@pytest.mark.parametrize(
    "column, good, bad",
    [
        ("token_logprobs", [-1.0, 0.0], [0.5]),
        ("token_entropies", [0.0, 2.0], [-0.5]),
        ("logprobs_without_both", [-3.0], [math.nan]),
        ("image_divergence", [0.5], [-1.0]),
        ("uniform_divergence", [0.5], [-1.0]),
        ("option_logits", [-5.0, 5.0], [math.inf]),
        ("p_yes", 1.0, 1.5),
        ("p_true", 0.0, -0.5),
        ("verdict", 7.0, math.nan),
        ("top_tokens", [["a", ""]], [["a", 1]]),
    ],
)
def test_a_number_that_cannot_be_is_gone_with_a_reason_and_the_rest_stays(column, good, bad):
    assert drop_impossible({"text": "a", column: good}) == ({"text": "a", column: good}, [])
    kept, reasons = drop_impossible({"text": "a", column: bad})
    assert kept == {"text": "a"} and len(reasons) == 1 and reasons[0].startswith(f"{column}: ")


def test_lists_of_different_lengths_are_all_gone():
    kept, reasons = drop_impossible({"text": "a", "token_logprobs": [-1.0, -2.0], "token_entropies": [1.0], "option_logits": [1.0, 2.0]})
    assert kept == {"text": "a", "option_logits": [1.0, 2.0]} and len(reasons) == 1
    assert drop_impossible({"token_logprobs": None, "token_entropies": [1.0]}) == (
        {"token_logprobs": None, "token_entropies": [1.0]},
        [],
    )


def test_blind_ids_say_nothing_and_differ():
    names = [f"scene-{k}-{side}" for k in range(50) for side in "au"]
    blind = [blind_id(name) for name in names]
    assert len(set(blind)) == 100 and all(len(b) == len("blind-") + 16 for b in blind)
    assert blind_id("scene-3-u") == "blind-" + hashlib.sha256(b"questionnaire\nscene-3-u").hexdigest()[:16] == "blind-4e8b7de5a7278e39"


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"exact_match": 1.0, "bleu": 0.2}, 1.0),
        ({"acc_norm": 1.0, "acc": 0.0}, 0.0),
        ({"mmmu_val_acc": {"id": "x", "correct": True}}, 1.0),
        ({"gqa_exact_match": "0"}, 0.0),
        ({"score": 7.0}, 7.0),
        ({"hit": False}, 0.0),
        ({"bleu": 0.3, "acc_norm": 1.0, "answer": "C", "score": "good"}, None),
        ({"exact_match": float("nan")}, None),
        ("exact_match", None),
    ],
)
def test_the_verdict_of_a_log_is_that_of_its_surest_metric(row, found):
    assert verdict(row).get("verdict") == found


FIXTURE = Path(__file__).resolve().parents[4] / "shared/fixtures/cases/lm-eval-logs/gsm"


@pytest.mark.skipif(not FIXTURE.exists(), reason="the fixture folder is not on this machine")
@pytest.mark.parametrize(("chosen", "verdicts"), [(None, [0.0] * 4), ("flexible-extract", [1.0] * 4)])
def test_each_filter_of_a_log_has_its_own_verdicts(chosen, verdicts):
    (path,) = FIXTURE.glob("*.jsonl")
    rows = [item for item in lm_eval.read(path, ReadOptions(filter=chosen)) if isinstance(item, Record)]
    assert [row.draws[0]["verdict"] for row in rows] == verdicts
