"""Laws that every NLI model keeps, and what every pair of texts is told: rules, duplicates, cache, what a kill leaves."""

import json
from collections import Counter

import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.runners.contracts.nli import NliContext, NliError
from qualm.runners.data.inferences import Inferences
from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT, NEUTRAL, CachedNli, open_nli, pair_key, probabilities
from qualm.runners.runtime.settings import Settings
from tests.runners.plugins.nli.test_embedding import encoder
from tests.support.models.tiny_nli import nli_model

TEXTS = ["red", "a red cube", "Yes.", "нет", "红色", "", " ", "it's two\ncubes", "\ud800"]


class Lengths:
    """Logits from the lengths of the texts; fails after some batches."""

    identity, name, classes = "lengths 1", "lengths", 3

    def __init__(self, fails_after: int = 10**9, batch: int = 4):
        self.asked, self.batches, self.fails_after, self.batch = [], 0, fails_after, batch

    def infer(self, pairs):
        for start in range(0, len(pairs), self.batch):
            if self.batches == self.fails_after:
                raise NliError("lengths: out of luck")
            self.batches += 1
            some = pairs[start : start + self.batch]
            self.asked += some
            yield [(start + k, (len(p) / 7, len(h) / 7, 0.5)) for k, (p, h) in reversed(list(enumerate(some)))]


def nli(tmp_path, engine=None):
    context = NliContext(Settings(progress=False))
    return CachedNli(engine or Lengths(), context, tmp_path / "cache")


PAIRS = [(a, b) for a in TEXTS for b in TEXTS]


def test_every_different_pair_is_asked_once_and_rules_come_first(tmp_path):
    one = nli(tmp_path)
    found = one.logits(PAIRS * 3)
    assert found.shape == (3 * len(PAIRS), 3)
    np.testing.assert_array_equal(found[: len(PAIRS)], found[len(PAIRS) : 2 * len(PAIRS)])
    asked = one.engine.asked
    assert len(asked) == len(set(asked)) == 7 * 6  # neither a text and itself nor one that is blank
    for (premise, hypothesis), chances in zip(PAIRS, probabilities(found), strict=False):
        if premise.strip() == hypothesis.strip():
            assert chances[ENTAILMENT] == 1.0
        elif not premise.strip() or not hypothesis.strip():
            assert chances[CONTRADICTION] == 1.0
        else:
            logits = np.float32([len(premise) / 7, len(hypothesis) / 7, 0.5]).astype(float)
            np.testing.assert_allclose(chances, np.exp(logits) / np.exp(logits).sum())
    assert one.counters["nli pairs computed"] == 42
    assert one.counters["nli pairs same as another"] == 2 * len(PAIRS)
    assert one.logits([]).shape == (0, 3)


def test_what_a_killed_run_inferred_is_not_asked_again(tmp_path):
    with pytest.raises(NliError, match="out of luck"):
        nli(tmp_path, Lengths(fails_after=3)).logits(PAIRS)
    again = nli(tmp_path)
    found = again.logits(PAIRS)
    assert again.counters["nli pairs stored"] == 12
    assert again.counters["nli pairs computed"] == 42 - 12
    np.testing.assert_array_equal(found, nli(tmp_path / "elsewhere").logits(PAIRS))
    assert nli(tmp_path).logits(PAIRS).tolist() == found.tolist()


def test_another_engine_has_another_cache(tmp_path):
    nli(tmp_path).logits(PAIRS)
    other = Lengths()
    other.identity = "lengths 2"
    nli(tmp_path, other).logits(PAIRS)
    assert len(other.asked) == 42


def test_damage_costs_the_damaged_batch(tmp_path, capsys):
    nli(tmp_path).logits(PAIRS)
    (file,) = (tmp_path / "cache").rglob("*.inferences")
    lines = file.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b"A", b"B", 1)
    file.write_bytes(b"\n".join(lines))
    again = nli(tmp_path)
    again.logits(PAIRS)
    assert again.counters["nli pairs computed"] == 4
    assert "1 damaged line ignored" in capsys.readouterr().err


def test_a_full_disk_says_what_to_do(tmp_path, monkeypatch):
    def full(self, *_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Inferences, "put", full)
    with pytest.raises(NliError, match="Make room and run again"):
        nli(tmp_path).logits(PAIRS)


def test_keys_tell_pairs_apart():
    pairs = [("a b", "c"), ("a", "b c"), ("a b c", ""), ("", "a b c"), ("c", "a b"), ("3 1 a", "b")]
    assert len({pair_key(*p) for p in pairs}) == len(pairs)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Folders of the tiny models that plugins with a parameter `artifact` read."""
    return {"hf": nli_model(tmp_path_factory.mktemp("hf") / "m"), "embedding": encoder(tmp_path_factory.mktemp("embedding"))}


@pytest.mark.parametrize("name", registry.names("nli"))
def test_a_pair_depends_on_itself_alone_and_is_inferred_once(name, request, tmp_path):
    plugin = registry.get("nli", name)
    assert plugin.reads == ("context",) and plugin.summary
    args = {p.name: p.default for p in plugin.parameters}
    args |= {"artifact": str(request.getfixturevalue("weights")[name])} if "artifact" in args else {}

    def opened(folder, batch_size):
        settings = Settings(progress=False, device="cpu", batch_size=batch_size)
        return open_nli({"plugin": name, "args": args}, NliContext(settings, Counter()), tmp_path / folder)

    pairs = [pair for pair in PAIRS if "\ud800" not in pair]
    one = opened("a", 64)
    found = one.logits(pairs)
    assert found.shape == (len(pairs), one.classes) and one.engine.identity == opened("b", 1).engine.identity
    np.testing.assert_allclose(opened("b", 3).logits(pairs[::-1])[::-1], found, atol=2e-5)
    again = opened("a", 5)
    assert again.logits(pairs).tolist() == found.tolist()
    assert again.counters["nli pairs computed"] == 0 or not list(tmp_path.glob("a/**/*.inferences"))
    best = found[:, 0] if one.classes == 1 else probabilities(found)[:, ENTAILMENT]
    for (premise, hypothesis), entails in zip(pairs, best, strict=True):
        if premise.strip() == hypothesis.strip():
            assert entails == 1
        elif not premise.strip() or not hypothesis.strip():
            assert entails == pytest.approx(-1 if one.classes == 1 else 0)


def test_opened_by_the_name_a_spec_gives(tmp_path):
    one = open_nli({"plugin": "lexical", "args": {}}, NliContext(Settings(progress=False)), tmp_path)
    assert probabilities(one.logits([("a red cube", "red cube"), ("red cube", "a big red cube")])).argmax(axis=1).tolist() == [
        ENTAILMENT,
        NEUTRAL,
    ]
    assert not list(tmp_path.iterdir())  # what costs nothing is not kept


def test_the_journal_is_plain(tmp_path):
    kept = Inferences(tmp_path, "x")
    kept.put([b"k" * 16, b"l" * 16], [(1.5, 0.0, -2.0), (0.25, 3.0, 4.0)])
    again = Inferences(tmp_path, "x")
    assert len(again) == 2
    assert again.take([b"l" * 16, b"k" * 16]).tolist() == [[0.25, 3.0, 4.0], [1.5, 0.0, -2.0]]
    assert set(json.loads(next(again.folder.glob("*")).read_bytes().split(b" ", 1)[1])) == {"keys", "logits"}
