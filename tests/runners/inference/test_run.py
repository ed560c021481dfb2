"""From samples to tables: what is computed, what is stored, what is said of samples that cannot be asked."""

import json
import threading
import time
from contextlib import chdir
from dataclasses import replace

import pytest

from qualm.registry.sample import GENERATIONS
from qualm.runners.contracts import parts
from qualm.runners.contracts.models import ModelContext, Part
from qualm.runners.data.answers import LostError, Store, read_about
from qualm.runners.data.dataset import DatasetFolder, read_variants
from qualm.runners.inference import run
from qualm.runners.inference.batch_plan import PLANS, AnswerTask, Lookup
from qualm.runners.inference.keys import stored_keys
from qualm.runners.inference.run import answer_tables, generations_table, open_store
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.runtime.stage import StageError
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.asking import asker_of, bare_stage, picture, png, sample, write_samples
from tests.support.projects.tiny_project import BLUR, CLEAN, NOISE

HF = "qualm.runners.plugins.models.hf_vlm"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    import torch

    torch.set_num_threads(1)
    return hf_vlm(ModelContext("m", tiny_llava(tmp_path_factory.mktemp("model"))), dtype="float32")


@pytest.fixture(autouse=True)
def here(tmp_path):
    with chdir(tmp_path):
        yield


def data(tmp_path, name, samples, pictures):
    return DatasetFolder(name, write_samples(tmp_path / name, samples, pictures))


def opened(tmp_path, names="abc"):
    return data(tmp_path, "d", [sample(n, "red", f"What color is the cube {i} ?") for i, n in enumerate(names)], {"red": png(picture(1))})


def tables(model, datasets, variants=(CLEAN,), needs=("text",), stage=None, **more):
    stage = stage or bare_stage(batch_size=2)
    return answer_tables(model, HF, datasets, read_variants(variants), frozenset(needs), stage, **more), stage


@pytest.mark.slow
def test_a_table_for_each_data_set_with_its_own_cells(model, tmp_path):
    choices = data(tmp_path, "e", [sample("z", "red", "Which ?", ["x", "y"])], {"red": png(picture(1))})
    (first, second), stage = tables(model, [opened(tmp_path), choices], [CLEAN, NOISE], ["text", "option_logits", "p_true", "draws"],
                                    bare_stage({"draws": 2}, batch_size=2))  # fmt: skip
    greedy = [r for r in first.to_pylist() if r["draw"] == 0]
    assert [(r["sample_id"], r["variant"]) for r in greedy] == [(n, v) for n in "abc" for v in ("clean", "gaussian_noise@sigma=25.0")]
    assert first.num_rows == 18 and [len(r["option_logits"]) for r in second.to_pylist()] == [2, 2]
    assert stage.counters == {
        "answers computed": 8, "answers stored": 0, "draws computed": 12, "draws stored": 0, "signals computed": 6, "signals stored": 0,
    }  # fmt: skip
    assert not (PLANS / "t.infer").exists(), "a plan of a stage that has ended is forgotten"


def test_what_is_stored_is_not_computed_again_and_repeats_are_counted(model, tmp_path):
    twins = data(tmp_path, "d", [sample(n, "red", "What ?") for n in "abc"], {"red": png(picture(1))})
    before, stage = tables(model, [twins])
    assert stage.counters == {"answers computed": 1, "answers stored": 0, "same as another": 2}
    after, stage = tables(model, [twins])
    assert stage.counters == {"answers computed": 0, "answers stored": 3} and after == before
    _, stage = tables(model, [twins], needs=["p_yes"])
    assert stage.counters == {"answers computed": 0, "answers stored": 3, "signals computed": 1, "signals stored": 0, "same as another": 2}


@pytest.mark.parametrize(("broken", "more"), [(1, ""), (10, ""), (11, " and 1 more"), (13, " and 3 more")])
def test_samples_that_cannot_be_asked_are_told_and_all_others_kept(model, tmp_path, broken, more):
    bad = [sample(f"bad{i:02}", "gone", "What ?") for i in range(broken)]
    dataset = data(tmp_path, "d", [*bad, sample("good", "red", "What ?")], {"red": png(picture(1))})
    lines = "; ".join(f"d: sample 'bad{i:02}', image 'gone': is not in the dataset's images" for i in range(min(broken, 10)))
    stage = bare_stage()
    with pytest.raises(StageError) as error:
        tables(model, [dataset], stage=stage)
    start = f"{broken} samples cannot be asked; all others are answered and kept: {lines}{more}. Correct the data, or leave these"
    assert str(error.value).startswith(start)
    assert stage.counters == {"answers computed": 1, "answers stored": 0}
    whole = write_samples(tmp_path / "d", [sample("good", "red", "What ?")], {"red": png(picture(1))})
    assert tables(model, [DatasetFolder("d", whole)])[1].counters == {"answers computed": 0, "answers stored": 1}


def test_the_store_knows_whose_answers_it_holds(model, tmp_path):
    stage = bare_stage(store=str(tmp_path / "elsewhere"))
    tables(model, [opened(tmp_path)], stage=stage, label="ours")
    (folder,) = [path for path in (tmp_path / "elsewhere").iterdir() if path.is_dir()]
    about = read_about(folder)
    assert (about["label"], about["plugin"], about["model"]) == ("ours", HF, model.digest)
    assert [path.name for path in (folder / "used").iterdir()] == ["t infer"]
    assert "numpy" in about["libraries"] and isinstance(about["versions"], dict)


def test_another_process_that_is_not_the_first_gives_no_tables(model, tmp_path, monkeypatch):
    """With nothing planned it waits for nothing either: its share is empty."""
    calls = []
    monkeypatch.setattr(run, "is_first", lambda: False)
    monkeypatch.setattr(run, "answer_share", lambda asker, store: calls.append(type(store)))
    assert tables(model, [opened(tmp_path)], share_with_processes=True)[0] == [] and calls == [Store]


def test_answers_that_go_while_they_are_tabulated_are_told(model, tmp_path, monkeypatch):
    """Somebody clears the cache at the wrong moment."""
    plain = run.generations_table

    def cleared(asker, number, cells, store):
        for path in store.folder.glob("*.segment"):
            path.unlink()
        return plain(asker, number, cells, store)

    monkeypatch.setattr(run, "generations_table", cleared)
    with pytest.raises(StageError, match=r"3 of 3 answers are not stored \(any more\); run it again, and they are computed again$"):
        tables(model, [opened(tmp_path)])


def waiting(tmp_path):
    """An asker, a lookup that lacks the answers of a and b, and the store that another process writes to."""
    asker = asker_of({"d": write_samples(tmp_path / "w", [sample(n, None, f"{n}?") for n in "ab"], {})})
    cells, _ = asker.survey()
    lookup = Lookup([AnswerTask(cell, ("answer",)) for cell in cells], {}, 0)
    return asker, cells, lookup, open_store(asker, {})


def test_what_other_processes_have_computed_is_waited_for(tmp_path):
    asker, cells, lookup, store = waiting(tmp_path)
    other = open_store(asker, {})
    keys = stored_keys(asker, store, [(cell.place, "answer") for cell in cells])
    other.put(keys[:1], ["answer"], [Part("x")])
    late = threading.Thread(target=lambda: (time.sleep(0.3), other.put(keys[1:], ["answer"], [Part("y")])))
    late.start()
    run._wait_for_others(asker, lookup, store)
    late.join()
    assert store.has(keys).all()


def test_what_never_comes_is_told_with_the_folder(tmp_path, monkeypatch):
    asker, cells, lookup, store = waiting(tmp_path)
    store.put(stored_keys(asker, store, [(cells[0].place, "answer")]), ["answer"], [Part("x")])
    monkeypatch.setattr(run, "_LATE_SECONDS", 0.0)
    with pytest.raises(StageError) as error:
        run._wait_for_others(asker, lookup, store)
    assert str(error.value) == (
        f"1 answers that other processes computed are not in {store.folder}; "
        "all machines must see the same folder there (setting `store`); run it again to go on"
    )
    run._wait_for_others(asker, replace(lookup, missing=lookup.missing[:1]), store)


def test_counters_are_by_kind_and_silent_about_kinds_that_nobody_wants():
    stage = bare_stage()
    cells = [AnswerTask(None, ("answer", "draw 1", "draw 2", "p_true")), AnswerTask(None, ("options",))]
    run._count(stage, Lookup(cells, {"answer": 4, "options": 1, "p_yes": 2}, 0))
    assert stage.counters == {
        "answers computed": 2, "answers stored": 5, "draws computed": 2, "draws stored": 0, "signals computed": 1, "signals stored": 2,
    }  # fmt: skip
    run._count(other := bare_stage(), Lookup([], {"draw 3": 1}, 7))
    assert json.dumps(other.counters) == '{"draws computed": 0, "draws stored": 1, "same as another": 7}'


SIGNALS = ["logprobs_without_image", "logprobs_without_question", "logprobs_without_both", "image_divergence", "uniform_divergence",
           "top_logprobs", "top_tokens",
           "p_true", "p_true_sampling", "p_yes", "said_confidence"]  # fmt: skip
ALL = ["text", "token_logprobs", "token_entropies", "option_logits", "draws", *SIGNALS]


@pytest.fixture
def folders(tmp_path):
    samples = [sample("a", "red", "What is it?"), sample("b", None, "What is a cone?"), sample("c", None, "Which?", ["x", "y"])]
    with chdir(tmp_path):
        yield {
            "d": write_samples(tmp_path / "d", samples, {"red": png(picture(1))}),
            "e": write_samples(tmp_path / "e", [sample("z", None, "Why?")], {}),
        }


def value(number, part):
    """A part by the place of its cell: every number tells where it comes from."""
    at = float(number)
    return {
        "answer": Part(f"answer {number}", [1], [-at, -0.5], [at, 0.25]),
        "options": Part("A", [1], [-at], [at], [at, -at]),
        "draw 1": Part(f"first {number}", [2], [-at - 1], [at + 1]),
        "draw 2": Part(None, None, None, None),
        "without_image": Part(logprobs=[-at - 2]),
        "without_question": Part(logprobs=[-at - 3]),
        "without_both": Part(logprobs=[-at - 4]),
        "image_divergence": Part(logprobs=[at + 5]),
        "uniform_divergence": Part(logprobs=[at + 6]),
        "top_logprobs": Part(logprobs=[-at - 0.5, -at - 1, -0.25, -at - 2], numbers=[2.0]),
        "top_tokens": Part(f'[["red {number}", "\\u00e9"], ["", " cube"]]'),
        "p_true": Part(numbers=[(at + 1) / 8]),
        "p_true_sampling": Part(numbers=[(at + 2) / 16]),
        "p_yes": Part(numbers=[]),
        "said_confidence": Part(f"{number} %", [3], [-9.0]),
    }[part]


def filled(folders, needs, variants=(CLEAN,), **params):
    """An asker with its cells, and a store that has all of it; answers first, for signals are about them."""
    asker = asker_of(folders, variants, needs, **params)
    cells, _ = asker.survey()
    store = Store(folders["d"].parent / "store", "m", "e")
    wanted = [(number, cell.place, part) for number, cell in enumerate(cells) for part in asker.parts(cell.options)]
    for signals in (False, True):
        some = [(n, place, part) for n, place, part in wanted if (part not in ("answer", "options") and "draw" not in part) is signals]
        if some:
            keys = stored_keys(asker, store, [(place, part) for _, place, part in some])
            store.put(keys, [part for *_, part in some], [value(n, part) for n, _, part in some])
    return asker, cells, store


def test_every_column_and_row(folders):
    asker, cells, store = filled(folders, ALL, draws=2)
    made = generations_table(asker, 0, cells[:3], store)
    assert made.schema == GENERATIONS
    rows = made.to_pylist()
    assert [(r["sample_id"], r["variant"], r["draw"]) for r in rows] == [(n, "clean", d) for n in "ab" for d in range(3)] + [
        ("c", "clean", 0)
    ]
    assert [r["input_digest"] for r in rows] == [cells[i].input_digest for i in (0, 0, 0, 1, 1, 1, 2)]
    assert [r["text"] for r in rows] == ["answer 0", "first 0", None, "answer 1", "first 1", None, "A"]
    assert [r["token_logprobs"] for r in rows] == [[0.0, -0.5], [-1.0], None, [-1.0, -0.5], [-2.0], None, [-2.0]]
    assert [r["token_entropies"] for r in rows] == [[0.0, 0.25], [1.0], None, [1.0, 0.25], [2.0], None, [2.0]]
    assert [r["option_logits"] for r in rows] == [None] * 6 + [[2.0, -2.0]]
    nothing = dict.fromkeys(SIGNALS)
    greedy = [
        {
            "logprobs_without_image": [-2.0 - i], "logprobs_without_question": [-3.0 - i], "logprobs_without_both": [-4.0 - i],
            "image_divergence": [5.0 + i], "uniform_divergence": [6.0 + i],
            "top_logprobs": [[-0.5 - i, -1.0 - i], [-0.25, -2.0 - i]], "top_tokens": [[f"red {i}", "é"], ["", " cube"]],
            "p_true": (i + 1) / 8, "p_true_sampling": (i + 2) / 16, "p_yes": None,
            "said_confidence": f"{i} %",
        }
        for i in (0, 1)
    ]  # fmt: skip
    expected = [greedy[0], nothing, nothing, greedy[1], nothing, nothing, nothing]
    assert [{name: r[name] for name in SIGNALS} for r in rows] == expected


@pytest.mark.parametrize(
    ("logprobs", "numbers"),
    [
        (None, [2.0]),
        ([-1.0, -2.0], None),
        ([-1.0, -2.0, -3.0], [2.0]),
        ([-2.0, -1.0], [2.0]),
        ([-1.0], [1.0]),
        ([-1.0], [-1.0]),
        ([], [2.0]),
    ],
)
def test_malformed_likeliest_tokens_are_undefined(logprobs, numbers):
    assert parts.read_top_logprobs(logprobs, numbers) is None
    assert parts.read_top_logprobs([-1.0, -2.0], [2.0]) == [[-1.0, -2.0]]


@pytest.mark.parametrize(
    "text",
    [
        None, "", "[]", "null", "3", "x", '"ab"', '{"a": ["b", "c"]}', '["ab"]', '[["a"]]', '[["a", 1]]', '[["a", null]]',
        '[["a", "\\ud800"]]', "[" * 99_999,
    ],
)  # fmt: skip
def test_malformed_texts_of_likeliest_tokens_are_undefined(text):
    assert parts.read_top_tokens(text) is None
    assert parts.read_top_tokens('[["a", ""], ["b", "c", "d"]]') == [["a", ""], ["b", "c", "d"]]


def test_columns_that_nobody_needs_are_null_but_for_the_text(folders):
    asker, cells, store = filled(folders, ["p_true"])
    rows = generations_table(asker, 0, cells[:3], store).to_pylist()
    assert [r["text"] for r in rows] == ["answer 0", "answer 1", "A"] and [r["p_true"] for r in rows] == [1 / 8, 2 / 8, None]
    assert all(
        r[name] is None for r in rows for name in ("token_logprobs", "token_entropies", "option_logits", *SIGNALS) if name != "p_true"
    )


def test_the_data_set_and_variant_of_a_cell(folders):
    asker, cells, store = filled(folders, ["text"], [BLUR, CLEAN])
    rows = generations_table(asker, 0, [cell for cell in cells if cell.place.dataset == 0], store).to_pylist()
    assert [(r["sample_id"], r["variant"]) for r in rows] == [("a", "blur@radius=2.0"), ("a", "clean"), ("b", "clean"), ("c", "clean")]
    (row,) = generations_table(asker, 1, cells[-1:], store).to_pylist()
    assert (row["sample_id"], row["text"], row["variant"]) == ("z", "answer 4", "clean")


@pytest.mark.parametrize("chunk", [1, 2, 3, 4])
def test_cells_are_taken_in_pieces_that_leave_no_trace(folders, monkeypatch, chunk):
    asker, cells, store = filled(folders, ALL, draws=2)
    whole = generations_table(asker, 0, cells[:3], store)
    monkeypatch.setattr(run, "CHUNK_CELLS", chunk)
    assert generations_table(asker, 0, cells[:3], store).to_pylist() == whole.to_pylist()


def test_no_cells_make_an_empty_table(folders):
    asker, _, store = filled(folders, ["text"])
    assert generations_table(asker, 0, [], store).schema == GENERATIONS and generations_table(asker, 0, [], store).num_rows == 0


def test_a_part_that_is_not_stored_is_no_row_of_nulls(folders):
    asker, cells, _ = filled(folders, ["text"])
    with pytest.raises(LostError, match="3 of 3 answers are not stored"):
        generations_table(asker, 0, cells[:3], Store(folders["d"].parent / "other", "m", "e"))
