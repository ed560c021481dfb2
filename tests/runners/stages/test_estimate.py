"""The estimate stage on draws: which rows have them, what estimators are handed, what is counted."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import GENERATIONS, SAMPLES, UNCERTAINTIES
from qualm.runners.data.internals import schema, write_internals
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import estimate
from tests.support.checks.plugin_files import made_up
from tests.support.models.tiny_nli import nli_model
from tests.support.projects.stages import ref

DRAWN = {"s0": ["red", "red", "blue"], "s1": ["no", "no", "no"], "s2": ["red", "yes"], "s3": [], "s4": ["2", None, "2"]}
"""s2 lacks its last draw, s3 (multiple choice) has none, of s4's draws one has no text."""


def rows(variant: str, turn: int):
    found = []
    for name, texts in DRAWN.items():
        same = {"sample_id": name, "variant": variant}
        found.append({**same, "draw": 0, "text": "red", "token_logprobs": [-1.0]})
        found += [{**same, "draw": k, "text": t, "token_logprobs": [-0.5 * k] * k} for k, t in enumerate(texts, 1)]
    found.append({"sample_id": "s1", "variant": variant, "draw": 4, "text": "beyond what was asked for", "token_logprobs": [-9.0]})
    return found[turn:] + found[:turn]  # no meaning comes from the order of rows


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = {"datasets": {}, "generations": {}}
    for model in ("m1", "m2"):
        for i, name in enumerate(("d1", "d2")):
            samples = [{"sample_id": s, "question": f"{name} {s}?", "choices": ["a", "b"] if s == "s3" else []} for s in DRAWN]
            write_table(Path("data") / name / "samples.parquet", samples[::-1], SAMPLES)
            inputs["datasets"][name] = f"data/{name}"
            path = Path(model) / f"{name}.parquet"
            write_table(path, rows("clean", i) + rows("blur@radius=2", i + 3), GENERATIONS)
            inputs["generations"].setdefault(model, {})[name] = str(path)
    return inputs


def run(inputs, *estimators, draws=3, left_out=None, **settings):
    params = {"estimators": list(estimators), "draws": draws, **({"left_out": left_out} if left_out else {})}
    stage = Stage("s/estimate", "s", "estimate", "estimate", params, inputs, {"uncertainties": "out.parquet"}, 7, Settings(**settings))
    estimate.run(stage)
    found = read_table(Path("out.parquet"), UNCERTAINTIES).to_pylist()
    return stage, {(r["model"], r["dataset"], r["variant"], r["estimator"], r["sample_id"]): r["value"] for r in found}


def test_draws_under_perturbed_variants_stand_beside_the_clean_answer(world):
    under = [ref("vl_uncertainty", f"vl_{which}", under=which) for which in ("all", "blur", "blur@radius=2", "noise")]
    _, found = run(world, *under, ref("vase", under="all"), ref("number_of_semantic_sets", nli="lexical"))
    mine = {key[2:]: value for key, value in found.items() if key[:2] == ("m1", "d1")}
    for which in ("all", "blur", "blur@radius=2"):
        values = {sample: mine["clean", f"vl_{which}", sample] for sample in DRAWN}
        assert values == {"s0": pytest.approx(np.log(3) - 2 / 3 * np.log(2)), "s1": 0.0, "s2": None, "s3": None, "s4": None}
    assert mine["clean", "vase", "s1"] > 0 and mine["clean", "vase", "s2"] is None  # "red" is a cluster that nothing is drawn in
    assert {key[0] for key in mine if key[1] in ("vase", "vl_all")} == {"clean"}, "a perturbed answer has no value"
    assert not any(key[1] == "vl_noise" for key in mine), "nor has any where there is no such variant"
    assert mine["blur@radius=2", "number_of_semantic_sets", "s0"] == 2


def test_variants_that_a_sample_lacks_are_left_out_of_its_list(world):
    path = Path(world["generations"]["m1"]["d1"])
    more = [r | {"variant": "blur@radius=4"} for r in rows("clean", 0) if r["sample_id"] in ("s1", "s2")]
    more = [r | {"text": "yes"} if r["sample_id"] == "s1" else r for r in more]
    write_table(path, rows("clean", 0) + rows("blur@radius=2", 3) + more, GENERATIONS)
    _, found = run(world, ref("vl_uncertainty", under="all"), ref("vl_uncertainty", "four", under="blur@radius=4"))
    values = {key[3:]: value for key, value in found.items() if key[:3] == ("m1", "d1", "clean")}
    assert values["vl_uncertainty", "s1"] == pytest.approx(np.log(2)) and values["four", "s1"] == 0.0
    assert values["vl_uncertainty", "s0"] == pytest.approx(np.log(3) - 2 / 3 * np.log(2)) and values["four", "s0"] is None


def test_what_is_left_out_for_a_model_has_no_rows_of_it(world):
    every = [ref("perplexity"), ref("lexical_similarity"), ref("number_of_semantic_sets", nli="lexical")]
    whole, before = run(world, *every)
    stage, found = run(world, *every, left_out={"m1": ["perplexity", "number_of_semantic_sets"], "m2": ["perplexity"]})
    spared = {("m1", "perplexity"), ("m2", "perplexity"), ("m1", "number_of_semantic_sets")}
    assert found == {key: value for key, value in before.items() if (key[0], key[3]) not in spared}
    assert stage.counters["uncertainties"] == whole.counters["uncertainties"] // 2


def test_the_same_draws_in_another_order_are_a_tie(world):
    """To the last bit: whether uncertainty rose is asked by `>`."""
    rng = np.random.default_rng(1)
    words = [" ".join(rng.choice(["red", "blue", "a", "cube", "no", "2"], rng.integers(1, 5))) for _ in range(8)]
    made = []
    for i in range(30):
        draws = [(text, rng.uniform(-2, 0, 2).tolist()) for text in rng.choice(words, 6)]
        for variant in ("clean", "blur"):
            row = {"sample_id": f"s{i}", "variant": variant}
            made.append({**row, "draw": 0, "text": "red", "token_logprobs": [-1.0]})
            said = [draws[k] for k in rng.permutation(6)]
            made += [{**row, "draw": k, "text": text, "token_logprobs": known} for k, (text, known) in enumerate(said, 1)]
    write_table(Path("m1/d1.parquet"), made, GENERATIONS)
    of_likeness = ("deg_mat", "eigenvalue", "eccentricity")
    alike = [ref(name, f"{name} {s}", similarity=s) for name in of_likeness for s in ("entailment", "jaccard")]
    entropies = [ref("semantic_entropy", v, version=v) for v in ("sum", "frequency", "kuhn", "uq_nlg", "normalised")]
    _, found = run({"generations": {"m1": {"d1": "m1/d1.parquet"}}}, ref("lexical_similarity"), ref("luq"), *alike, *entropies, draws=6)
    clean = {key: value for key, value in found.items() if key[2] == "clean"}
    changed = {key[3:] for key, value in clean.items() if found[*key[:2], "blur", *key[3:]] != value}
    assert len(clean) == 30 * 13 and not changed
    assert all(np.signbit(value) == (value < 0) for value in clean.values())


def test_values_and_what_is_undefined(world):
    stage, found = run(
        world,
        ref("semantic_entropy", "discrete", nli="lexical", version="frequency"),
        ref("semantic_entropy", "sum", nli="lexical", version="sum"),
        ref("lexical_similarity"),
        ref("perplexity"),
    )
    assert len(found) == 2 * 2 * 2 * 4 * 5
    for model in ("m1", "m2"):
        for variant in ("clean", "blur@radius=2"):
            value = {(e, s): v for (m, d, var, e, s), v in found.items() if (m, d, var) == (model, "d2", variant)}
            assert value["discrete", "s0"] == pytest.approx(-(2 / 3) * np.log(2 / 3) - np.log(1 / 3) / 3)
            assert value["discrete", "s1"] == 0
            total = np.logaddexp(-0.5, -2.0)
            assert value["sum", "s0"] == pytest.approx(-(2 * total - 4.5) / 3)
            assert value["lexical_similarity", "s0"] == pytest.approx(-1 / 3)
            assert value["perplexity", "s0"] == 1.0
            for name in ("s2", "s3", "s4"):
                assert value["discrete", name] is value["sum", name] is value["lexical_similarity", name] is None
                assert value["perplexity", name] == 1.0
    assert stage.counters["answers without draws"] == 8
    assert stage.counters["answers with fewer than 3 draws"] == 8
    assert stage.counters["undefined"] == 3 * 3 * 8
    assert stage.counters["uncertainties"] == len(found)


def test_a_data_set_without_draws_has_no_rows_of_their_estimators(world):
    """Multiple choice: nobody has failed to score it."""
    path = Path(world["generations"]["m1"]["d1"])
    write_table(path, [r for r in rows("clean", 0) if r["draw"] == 0], GENERATIONS)
    stage, found = run(world, ref("lexical_similarity"), ref("perplexity"))
    mine = {e for (m, d, _, e, _) in found if (m, d) == ("m1", "d1")}
    assert mine == {"perplexity"}
    assert {e for (m, d, _, e, _) in found if (m, d) == ("m1", "d2")} == {"perplexity", "lexical_similarity"}
    assert stage.counters["without what an estimator reads"] == len(DRAWN)


def test_rows_depend_on_themselves_alone_and_arrive_in_order(world, monkeypatch):
    estimators = [ref("deg_mat", nli="lexical"), ref("luq", nli="lexical"), ref("perplexity")]
    whole = run(world, *estimators)[1]
    monkeypatch.setattr(estimate, "GROUP_ANSWERS", 1)
    apart = run(world, *estimators)[1]
    assert list(whole.items()) == list(apart.items())


def test_fewer_draws_are_asked_for_than_there_are(world):
    _, found = run(world, ref("lexical_similarity"), draws=2)
    assert found["m1", "d1", "clean", "lexical_similarity", "s0"] == -1.0
    assert found["m1", "d1", "clean", "lexical_similarity", "s2"] == 0.0
    _, found = run(world, ref("lexical_similarity"), draws=4)
    assert {key[-1]: value for key, value in found.items() if value is not None} == {"s1": -0.5}


def test_the_question_is_the_samples_own(world, tmp_path):
    source = '''
    """Tells what it is handed."""
    import numpy as np
    from qualm.registry.plugins.columns import columns
    NEEDS = {"token_logprobs": "token_logprobs", "asked": "question", "other": {"mode": {"loud": "text"}}}
    def handed(token_logprobs, asked, other, *, mode: str = "quiet"):
        """Number of the sample in its question."""
        assert (other is None) == (mode == "quiet"), other
        return np.array([float(q[-2]) + (q[:2] == "d2") * 10 for q in asked])
    '''
    with made_up(tmp_path) as add:
        add("estimators", "handed", source)
        _, found = run(world, ref("handed", mode="quiet"), ref("handed", "loud", mode="loud"))
    for (_, dataset, _, _, name), value in found.items():
        assert value == int(name[1]) + (10 if dataset == "d2" else 0)


def test_a_draw_twice_is_refused(world):
    path = Path("m1/d1.parquet")
    write_table(path, rows("clean", 0) + rows("clean", 0)[1:2], GENERATIONS)
    with pytest.raises(StageError, match="clean: a sample has the same draw twice"):
        run(world, ref("lexical_similarity"))


def test_a_model_of_inference_is_opened_once_and_asked_once(world, tmp_path):
    folder = nli_model(tmp_path / "nli")
    nli = {"plugin": "hf", "args": {"artifact": str(folder), "labels": None, "dtype": None}}
    estimators = [ref("deg_mat", nli=nli), ref("eigenvalue", nli=nli), ref("semantic_entropy", nli=nli), ref("luq", nli=nli)]
    stage, found = run(world, *estimators, device="cpu", progress=False)
    assert stage.counters["nli pairs computed"] == 2  # red and blue, both ways: all other draws are equal or undefined
    again, same = run(world, *estimators, device="cpu", progress=False)
    assert "nli pairs computed" not in again.counters
    assert same == found
    with pytest.raises(StageError, match=r"deg_mat: nli hf: nowhere: expected config\.json"):
        run(world, ref("deg_mat", nli={"plugin": "hf", "args": {"artifact": "nowhere"}}))


def test_a_model_of_two_classes_serves_estimators_of_entailment(world, tmp_path):
    folder = nli_model(tmp_path / "nli", labels=["entailment", "not_entailment"])
    nli = {"plugin": "hf", "args": {"artifact": str(folder), "labels": None, "dtype": None}}
    of_entailment = [ref("deg_mat", nli=nli), ref("semantic_entropy", nli=nli, version="frequency"), ref("cocoa", nli=nli)]
    _, found = run(world, *of_entailment, device="cpu", progress=False)
    assert {key[3] for key, value in found.items() if value is not None} == {"deg_mat", "semantic_entropy", "cocoa"}
    refused = ["luq", "kernel_language_entropy", "semantic_density"]
    refused = [*map(ref, refused), ref("deg_mat", similarity="contradiction"), ref("semantic_entropy", same="no_contradiction")]
    for one in [*refused, ref("number_of_semantic_sets", sets="components"), ref("cocoa", similarity="contradiction")]:
        one["args"]["nli"] = nli
        with pytest.raises(StageError, match="two classes, entailment and no entailment; contradictions are needed here"):
            run(world, one, device="cpu", progress=False)


def test_hidden_states_are_read_a_group_at_a_time_and_matched_by_sample(world, tmp_path):
    """s2 lacks its last draw and s3 has none; what is not there is undefined, wherever its row group stands."""
    signal = "hidden_states/-1/answer_last"
    kind = schema([signal])

    def group(variant, *names):
        made = [{"sample_id": n, "variant": variant, "draw": d, signal: [10 * int(n[1]) + d, 1]} for n in names for d in range(1, 4)]
        return pa.Table.from_pylist([row for row in made if (row["sample_id"], row["draw"]) != ("s2", 3)], schema=kind)

    path = tmp_path / "inside.parquet"
    tables = [group("clean", "s4", "s1"), group("clean", "s0", "s2"), group("blur@radius=2", "s0")]
    write_internals(path, tables, [signal], {})
    source = f'''
    import numpy as np

    NEEDS = {{"states": "draw_{signal}", "token_logprobs": "token_logprobs"}}

    def of_states(states, token_logprobs):
        """Sum over the draws' first units, and the answer's log-probability."""
        return np.array([sum(s[0] for s in draws) + own[0] for draws, own in zip(states, token_logprobs)])
    '''
    with made_up(tmp_path) as add:
        add("estimators", "of_states", source)
        stage, found = run({**world, "internals": {"m1": {"d1": str(path)}}}, ref("of_states"))
    clean = {name: found["m1", "d1", "clean", "of_states", name] for name in DRAWN}
    assert clean == {"s0": 6 - 1, "s1": 36 - 1, "s2": None, "s3": None, "s4": 126 - 1}
    assert found["m1", "d1", "blur@radius=2", "of_states", "s0"] == 5 and not [key for key in found if key[:2] != ("m1", "d1")]
    assert stage.counters["uncertainties"] == 10 and stage.counters["without what an estimator reads"] == 3 * 2 * 5
    write_internals(path, [group("clean", "s2"), group("blur@radius=2", "s0"), group("blur@radius=2", "s2")], [signal], {})
    with made_up(tmp_path) as add:
        add("estimators", "of_states", source)
        stage, found = run({**world, "internals": {"m1": {"d1": str(path)}}}, ref("of_states"))
    assert {key[:3] for key in found} == {("m1", "d1", "blur@radius=2")}, "no clean answer has a state of each draw"
    assert stage.counters["uncertainties"] == 5 and stage.counters["without what an estimator reads"] == 3 * 2 * 5 + 5


def test_in_whatever_order_models_and_data_sets_come_the_table_is_the_same(world):
    tables = []
    for order in (1, -1):
        generations = {model: dict([*files.items()][::order]) for model, files in [*world["generations"].items()][::order]}
        run(world | {"generations": generations}, ref("perplexity"))
        tables.append(Path("out.parquet").read_bytes())
    assert tables[0] == tables[1]
