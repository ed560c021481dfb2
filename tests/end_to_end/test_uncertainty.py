"""From a spec with draws and estimators to the table of uncertainties, every number worked out again from the answers."""

import importlib
from collections import Counter
from contextlib import chdir
from functools import cache
from itertools import combinations
from string import punctuation, whitespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from qualm.compiler.plan.make import make_plan
from qualm.compiler.spec.canonical_json import canonical
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.registry.sample import GENERATIONS, UNCERTAINTIES
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import read_stage
from qualm.runners.scoring.answer_text import normalise
from tests.support.models.tiny_models import tiny_llava
from tests.support.models.tiny_nli import LABELS, nli_model

SPEC = """\
qualm: 1
name: t
datasets:
  open: {card: synthetic_scenes, test: 6}
  choice: {card: synthetic_scenes, format: multiple_choice, test: 3}
models:
  base: {hf_vlm: {artifact: tiny}}
perturbations: [blur: {radius: 2}]
inference: {draws: 4, max_new_tokens: 4}
estimators:
  - max_sequence_probability
  - pointwise_mutual_information: {without: [image, question]}
  - p_true
  - claim_conditioned_probability: {nli: {hf: {artifact: nli}}}
  - lexical_similarity: {words: unicode}
  - semantic_entropy: {version: [frequency, sum], nli: [lexical, {hf: {artifact: nli}}]}
metrics: [auroc]
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("project")
    tiny_llava(folder / "registry" / "data" / "tiny", seed=3)
    nli_model(folder / "registry" / "data" / "nli")
    return folder


def build(root, text, batch_size):
    """Compile and run up to `estimate`, as DVC would; the counters of each stage."""
    (root / "t.yaml").write_text(text)
    plan = make_plan(resolve_file(root / "t.yaml", root, RunWide(default="t")))
    counters = {}
    with chdir(root):
        for stage in plan.stages:
            if stage.kind in ("data", "infer", "estimate"):
                path = root / "specs" / "t" / "stages" / f"{stage.name}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(canonical(stage.as_json()))
                found = read_stage(f"t/{stage.name}", Settings(device="cpu", batch_size=batch_size, workers=1, progress=False))
                importlib.import_module(f"qualm.runners.stages.{stage.kind}").run(found)
                counters[stage.name] = found.counters
    return counters


def computed(counters):
    """What was asked of the model, of whatever kind."""
    return sum(n for name, own in counters.items() if name.startswith("infer") for kind, n in own.items() if kind.endswith(" computed"))


def tables(root):
    folder = root / "results" / "t"
    answers = {
        name: read_table(folder / "generations" / "base" / f"{name}.parquet", GENERATIONS).to_pylist() for name in ("open", "choice")
    }
    values = read_table(folder / "uncertainties.parquet", UNCERTAINTIES).to_pylist()
    return answers, {(r["dataset"], r["variant"], r["sample_id"], r["estimator"]): r["value"] for r in values}


def expected(greedy, draws):
    """Every estimator of the spec that needs no model, from one sample's rows, written out anew."""
    own = greedy["token_logprobs"]
    texts = [row["text"] for row in draws]
    groups = Counter(map(normalise, texts))
    likely = {g: np.logaddexp.reduce([sum(r["token_logprobs"]) for r in draws if normalise(r["text"]) == g]) for g in groups}
    yield "max_sequence_probability", -sum(own)
    yield "pointwise_mutual_information@without=image", -np.mean(np.subtract(own, greedy["logprobs_without_image"]))
    yield "pointwise_mutual_information@without=question", -np.mean(np.subtract(own, greedy["logprobs_without_question"]))
    yield "p_true", -np.log(greedy["p_true"])
    yield "lexical_similarity", -np.mean([f1(normalise(a).split(), normalise(b).split()) for a, b in combinations(texts, 2)])
    shares = np.array([groups[normalise(t)] / len(texts) for t in texts])
    yield "semantic_entropy@nli=lexical,version=frequency", -np.log(shares).mean()
    yield "semantic_entropy@nli=lexical,version=sum", -np.mean([likely[normalise(t)] for t in texts])


def claims(folder):
    """Return a function of a greedy answer that gives its claim-conditioned probability, by the NLI model one pair at a time."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)

    @cache
    def says(premise, hypothesis):
        logits = model(**tokenizer(premise, hypothesis, return_tensors="pt", return_token_type_ids=False)).logits[0]
        return LABELS[int(logits.argmax())]

    def share(position):
        (own, probability), *others = position
        entailed, contradicted = probability, 0.0
        for other, p in others:
            verdicts = ["neutral"] if not own or not other else [says(own, other), says(other, own)]
            if own == other or ("entailment" in verdicts and "contradiction" not in verdicts):
                entailed += p
            elif "contradiction" in verdicts and "entailment" not in verdicts:
                contradicted += p
        return entailed / (entailed + contradicted)

    def of(greedy):
        rows = zip(greedy["top_tokens"], greedy["top_logprobs"], strict=True)
        positions = [[(t.strip(punctuation + whitespace), np.exp(p)) for t, p in zip(*row, strict=True)][:10] for row in rows]
        return 1 - np.prod([share(position) for position in positions])

    return of


def f1(a, b):
    """ROUGE-L of words: twice the longest common subsequence over both lengths."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1, j + 1] = table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
    return 2 * table[-1, -1] / (len(a) + len(b)) if a or b else 1.0


def check(root, n):
    answers, values = tables(root)
    claimed = claims(root / "registry" / "data" / "nli")
    rows = {}
    for name, table in answers.items():
        for row in table:
            rows.setdefault((name, row["variant"], row["sample_id"]), []).append(row)
    assert len({key[3] for key in values}) == 10
    assert len(values) == 2 * (6 * 10 + 3)
    for (name, variant, sample), (greedy, *draws) in rows.items():
        if name == "choice":
            assert not draws  # and no rows of estimators that read more than an answer
            assert {k[3] for k in values if k[:3] == (name, variant, sample)} == {"max_sequence_probability"}
            continue
        assert [r["draw"] for r in draws] == list(range(1, n + 1))
        for label, value in expected(greedy, draws):
            assert values[name, variant, sample, label] == pytest.approx(value, abs=1e-5), (sample, label)
        of_claim = values[name, variant, sample, "claim_conditioned_probability"]
        assert of_claim == pytest.approx(claimed(greedy), abs=1e-5) and of_claim > 0
        of_model = values[name, variant, sample, "semantic_entropy@nli=hf(artifact=nli),version=frequency"]
        assert 0 <= of_model <= np.log(n) + 1e-12
    return values


@pytest.mark.slow
def test_a_spec_becomes_a_table_of_uncertainties(root):
    first = build(root, SPEC, 4)
    before = check(root, 4)
    assert first["estimate"]["answers without draws"] == 6
    assert first["estimate"]["without what an estimator reads"] == 6 * 9
    more = build(root, SPEC.replace("draws: 4", "draws: 6"), 3)
    check(root, 6)
    assert more["infer-base-open"]["draws computed"] == 2 * 6 * 2  # two draws more of six samples under two variants
    assert computed(more) == 2 * 6 * 2
    added = build(root, SPEC.replace("  - p_true", "  - p_true\n  - deg_mat: {nli: {hf: {artifact: nli}}}"), 4)
    assert computed(added) == 0
    after = tables(root)[1]
    assert {key: after[key] for key in before} == before  # fewer draws again: the first four, and the same values to the last bit
