"""What every estimator keeps, whoever wrote it."""

import re
from collections import Counter

import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import CONTEXT, QUESTION
from qualm.registry.plugins.columns import columns, drawn_from
from qualm.registry.plugins.internals import is_internal
from qualm.registry.sample import GENERATIONS
from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.contracts.nli import NliContext
from qualm.runners.inference.nli import CachedNli
from qualm.runners.runtime.settings import Settings

RNG = np.random.default_rng(0)
LENGTHS = [3, 1, 0, 7, 2]
TEXTS = [
    ["red", "red", "a red cube", "blue"],
    ["yes", "no", "yes", ""],
    ["", "", " ", ""],
    ["It is red. It is small.", "It is small!", "A cube. Red? Yes.", "no"],
    ["2", "two", "3", "Two."],
]
COLUMNS = {
    "token_logprobs": [-RNG.random(n) for n in LENGTHS],
    "token_entropies": [RNG.random(n) for n in LENGTHS],
    **{f"logprobs_without_{what}": [-RNG.random(n) for n in LENGTHS] for what in ("image", "question", "both")},
    "option_logits": [RNG.normal(size=4) for _ in LENGTHS],
    "text": ["a", "b c", "", "d", "e"],
    "p_true": RNG.random(5),
    "p_true_sampling": RNG.random(5),
    "p_yes": RNG.random(5),
    "image_divergence": [RNG.random(n) for n in LENGTHS],
    "uniform_divergence": [RNG.random(n) for n in LENGTHS],
    "top_logprobs": [[-np.sort(RNG.exponential(size=20) + 3) for _ in range(n)] for n in LENGTHS],
    "top_tokens": [[list(RNG.permutation(list("abcdefghijklmnopqrs ")).tolist()) for _ in range(n)] for n in LENGTHS],
    "said_confidence": ["85", "about 7%", "", "sure", "100"],
    "draw_texts": TEXTS,
    "draw_logprobs": [[-RNG.random(1 + len(t.split())) for t in texts] for texts in TEXTS],
    "draw_entropies": [[RNG.random(1 + len(t.split())) for t in texts] for texts in TEXTS],
    "draw_texts_under_all": TEXTS,
    "draw_logprobs_under_all": [[-RNG.random(1 + len(t.split())) for t in texts] for texts in TEXTS],
    **{
        f"draw_hidden_states/{layer}/{place}": [[RNG.normal(size=6) for _ in texts] for texts in TEXTS]
        for layer in ("0.5", "-1")
        for place in ("answer_last", "answer_mean")
    },
    "attention/middle_third/previous": [RNG.random(2 * max(0, n - 1)) for n in LENGTHS],
    **{f"attention/0.15:0.56/{look}": [RNG.random(n) for n in LENGTHS] for look in ("image_share", "image_entropy")},
    "image_information/0.3125:0.78125/0.6": [RNG.normal(size=n) for n in LENGTHS],
    "gradient/0.5:-2/-1": [RNG.random(min(n, 1)) for n in LENGTHS],
    **{f"evidence/{measure}": [RNG.random(n) for n in LENGTHS] for measure in ("conflict", "ignorance")},
    "token_ends": [np.linspace(0, len(t), n + 1)[1:].astype(int) for t, n in zip(["a", "b c", "", "d", "e"], LENGTHS, strict=True)],
    "question": ["What color?", "Is there a cube?", "", "Describe it.", "How many?"],
}

COLUMNS["draw_token_ends"] = [
    [np.linspace(0, len(t), len(own) + 1)[1:].astype(int) for t, own in zip(*row, strict=True)]
    for row in zip(TEXTS, COLUMNS["draw_logprobs"], strict=True)
]


def variants():
    """Every estimator, once for each value of each of its choices."""
    for name in registry.names("estimators"):
        plugin = registry.get("estimators", name)
        defaults = {p.name: p.default for p in plugin.parameters}
        yield pytest.param(plugin, defaults, id=name)
        for parameter in plugin.parameters:
            choices = getattr(parameter.annotation, "__args__", ()) if "Literal" in parameter.text else ()
            for value in [c for c in choices if c != parameter.default]:
                yield pytest.param(plugin, {**defaults, parameter.name: value}, id=f"{name}-{parameter.name}={value}")


ALL = list(variants())
OF_DRAWS = [one for one in ALL if any(c.startswith("draw_") for c in columns(*one.values).values() if c)]
each = pytest.mark.parametrize(("plugin", "args"), ALL)
each_of_draws = pytest.mark.parametrize(("plugin", "args"), OF_DRAWS)


def read_only(value):
    """Return nested lists of arrays with each array read-only: an estimator that changes its input fails."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, list):
        for each in value:
            read_only(each)
    return value


read_only(list(COLUMNS.values()))


class WordCounts:
    """An encoder without weights: cosines of the texts' counts of characters."""

    identity, name, classes = "", "counts", 1

    def infer(self, pairs):
        yield [(i, (self.cosine(*map(Counter, pair)),)) for i, pair in enumerate(pairs)]

    @staticmethod
    def cosine(a, b):
        return sum(a[c] * b[c] for c in a) / np.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))


class Context(EstimatorContext):
    def nli(self, chosen, reads="contradiction"):
        return CachedNli(WordCounts(), NliContext(self.settings, self.counters)) if reads == "cosine" else super().nli(chosen, reads)


def apply(plugin, args, rows, given=COLUMNS):
    context = [Context(Settings(progress=False), Counter())] if plugin.reads[0] == CONTEXT else []
    given = [None if c is None else given[c][rows] for c in columns(plugin, args).values()]
    return registry.load("estimators", plugin.name)(*context, *given, **args)


@each
def test_needs_are_the_columns_it_reads(plugin, args):
    declared, own = plugin.declares["NEEDS"], [name for name in plugin.reads if name != CONTEXT]
    assert list(declared) == own
    read = {c for c in columns(plugin, args).values() if c is not None}
    assert {c for c in read if not drawn_from(c) and not is_internal(c)} <= {*GENERATIONS.names, QUESTION}
    assert plugin.summary


@each
def test_one_number_per_row_whatever_else_is_in_the_batch(plugin, args):
    with np.errstate(divide="raise", invalid="raise"):
        whole = apply(plugin, args, slice(None))
    assert whole.shape == (5,)
    assert whole.dtype == np.float64
    np.testing.assert_allclose(np.concatenate([apply(plugin, args, slice(i, i + 1)) for i in range(5)]), whole, atol=1e-12)
    assert apply(plugin, args, slice(0, 0)).shape == (0,)
    of_row = [COLUMNS[c][2] for c in columns(plugin, args).values() if c]
    if any(len(value) == 0 for value in of_row if isinstance(value, list | np.ndarray)):
        assert np.isnan(whole[2]), "an answer without tokens is undefined"
    if args == {p.name: p.default for p in plugin.parameters}:
        low, high = stated_range(plugin)
        values = whole[~np.isnan(whole)]
        assert len(values) and low - 1e-12 <= values.min() and values.max() <= high + 1e-12


RANGE = re.compile(r"in \[(-?\d), (-?\d|inf)[\])]|from (?:about )?(0|1)\b(?! to \d)|at most (0)\b", re.IGNORECASE)


def stated_range(plugin):
    """Return the (lowest, highest) value of which an estimator's docstring speaks first; infinite where it does not."""
    found = RANGE.search(" ".join(registry.load("estimators", plugin.name).__doc__.partition("Args:")[0].split()))
    if found is None:
        return -np.inf, np.inf
    low, high, lowest, highest = found.groups()
    return (float(low), float(high)) if low else (float(lowest), np.inf) if lowest else (-np.inf, float(highest))


def world(doubt):
    """Two rows of a model that is unsure by `doubt`, 0 to 1, in all that an estimator can read; six sampled answers."""
    p, n, differing = 1 - doubt, 3, round(5 * doubt)
    words = ["red red", "blue blue", "green green", "no no", "cube cube", "two two"]  # two words each, for ROUGE-2
    texts = words[:1] * (6 - differing) + words[1 : 1 + differing]
    token, top = np.full(n, np.log(p)), np.log(np.r_[p, np.full(19, doubt / 19)])
    rng = np.random.default_rng(0)
    state, noise = rng.normal(size=6), rng.normal(size=(6, 6))
    row = {
        "token_logprobs": token,
        "token_entropies": np.full(n, doubt),
        "option_logits": np.array([1 / doubt, 0.0, 0.0, 0.0]),
        "text": words[0],
        **dict.fromkeys(("p_true", "p_true_sampling", "p_yes"), p),
        "image_divergence": np.full(n, p),
        "uniform_divergence": np.full(n, p),
        "top_logprobs": [top] * n,
        "top_tokens": [[*words, *(f"word{i}" for i in range(14))]] * n,
        "said_confidence": str(round(100 * p)),
        "token_ends": np.array([1, 2, 7]),
        "question": "Which?",
        "draw_texts": texts,
        "draw_logprobs": [token] * 6,
        "draw_entropies": [np.full(n, doubt)] * 6,
        "draw_token_ends": [np.arange(1, n + 1) * len(text) // n for text in texts],
        "attention/middle_third/previous": np.full(2 * (n - 1), p),
        "attention/0.15:0.56/image_share": np.full(n, p),
        "attention/0.15:0.56/image_entropy": np.full(n, doubt),
        "image_information/0.3125:0.78125/0.6": np.full(n, p),
        "gradient/0.5:-2/-1": np.array([doubt]),
        **dict.fromkeys(("evidence/conflict", "evidence/ignorance"), np.full(n, doubt)),
    }
    row |= {c: np.log(np.full(n, doubt)) for c in COLUMNS if c.startswith("logprobs_without_")}
    row |= {c: [state + doubt * each for each in noise] for c in COLUMNS if c.startswith("draw_hidden_states")}
    row |= {f"{c}_under_all": row[c] for c in ("draw_texts", "draw_logprobs")}
    return {c: [value] * 2 if not isinstance(value, float) else np.full(2, value) for c, value in row.items()}


NO_DOUBT_ALONE = {
    ("semantic_density", "draw_logprobs"): "less probable draws weigh less against the answer",
    ("vase", "draw_texts_under_all"): "what distorted images give as well is discounted",
}


@each
def test_doubt_makes_it_more_uncertain(plugin, args):
    """All doubt together, and that of each column alone."""
    worlds = [world(doubt) for doubt in (0.05, 0.4, 0.8)]
    values = [apply(plugin, args, slice(None), of)[0] for of in worlds]
    assert (np.diff(values) >= -1e-12).all() and values[-1] > values[0], values
    for column in {c for c in columns(plugin, args).values() if c} - {"draw_token_ends"}:
        ends = {"draw_token_ends"} if column == "draw_texts" else set()
        alone = [apply(plugin, args, slice(None), worlds[1] | {c: of[c] for c in {column} | ends})[0] for of in worlds]
        assert (np.diff(alone) >= -1e-12).all() or (plugin.name, column) in NO_DOUBT_ALONE, (column, alone)


ORDER_COUNTS = {
    "semantic_density": "an answer that is drawn twice counts by its first draw",
    "no_contradiction": "greedy clusters of a relation that is not transitive depend on their order",
}


@each_of_draws
def test_order_of_draws_does_not_matter(plugin, args):
    if {plugin.name, args.get("same")} & set(ORDER_COUNTS):
        return
    order = np.random.default_rng(5).permutation(4)
    turned = {n: [[row[i] for i in order] for row in c] if n.startswith("draw_") else c for n, c in COLUMNS.items()}
    np.testing.assert_allclose(apply(plugin, args, slice(None), turned), apply(plugin, args, slice(None)), atol=1e-9)


@each_of_draws
def test_two_draws_are_enough_and_one_is_where_nothing_else_is_said(plugin, args):
    if "draw_texts" not in plugin.reads:
        return  # of draws under perturbations one is enough
    of_two, of_one = ({name: [row[:n] for row in c] if name.startswith("draw_") else c for name, c in COLUMNS.items()} for n in (2, 1))
    said = [0, 1, 4]
    assert np.isfinite(apply(plugin, args, slice(None), of_two)[said]).all()
    undefined = "fewer than two" in " ".join(registry.load("estimators", plugin.name).__doc__.split())
    assert (np.isnan if undefined else np.isfinite)(apply(plugin, args, slice(None), of_one)[said]).all()


@each
def test_nothing_uncertain_is_0_and_not_minus_0(plugin, args):
    """Where every probability is 1 and all draws are equal; tables print the sign."""
    sure = {name: _sure(c) for name, c in COLUMNS.items()} | {"said_confidence": ["100"] * 5, "p_true": np.ones(5)}
    sure["attention/middle_third/previous"] = [np.ones_like(own) for own in COLUMNS["attention/middle_third/previous"]]
    values = apply(plugin, args, slice(None), sure)
    assert not np.signbit(values[values == 0]).any()


def _sure(column):
    """Every number 0, every text the same; ends of tokens stay ends."""
    if isinstance(column, str):
        return "red"
    if isinstance(column, list):
        return [_sure(one) for one in column]
    return column if column.dtype.kind == "i" else np.zeros(column.shape)


@each_of_draws
def test_draws_that_are_all_equal_are_the_surest(plugin, args):
    of_draws_alone = "draw_texts" in plugin.reads and not {"token_logprobs", "distorted_texts"} & set(plugin.reads)
    if of_draws_alone and args.get("version", "frequency") == "frequency" and args.get("metric") != "rouge2":
        whole = apply(plugin, args, slice(None))
        assert np.nanargmin(whole) == 2 or plugin.name in ("luq", "sar"), whole  # these drop what says nothing
