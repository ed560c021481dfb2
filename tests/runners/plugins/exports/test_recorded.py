"""Answers that were made elsewhere, exported: the prompt that was used or none, and nothing of how we would have asked."""

import json
import zipfile

import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.plugins.registry import load
from qualm.registry.sample import GENERATIONS, IMAGES, SAMPLES, Image
from qualm.runners.contracts.models import ModelContext
from qualm.runners.data.dataset import Variant
from qualm.runners.data.rows import as_row
from qualm.runners.plugins.exports import NO_PROMPT, ExportContext, ExportError, ExportPart
from qualm.runners.plugins.models.recorded import recorded
from qualm.runners.prompts.question import INSTRUCTION
from qualm.runners.runtime.records import read_table, write_table
from tests.support.data.recordings import inspect_eval, inspect_sample, leh, leh_choice, leh_open, lmms, lmms_row, tsv, vek_row
from tests.support.data.score_files import write_scores
from tests.support.projects.exported import MADE

OURS = ["max_gen_toks", "gen_kwargs", "random_seed", "num_fewshot", "n-shot", "temperature", '"max_new_tokens"', "started_at"]
"""What only those know who asked."""
ARGS = {"source": "log", "run": None, "format": "auto", "tasks": {}, "match": "id", "fields": {}, "filter": None, "check_questions": True}
LETTERED = "Look closely.\nWhat is it?\nA. a cat\nB. a dog\nJust say the letter!"


def logged(tmp_path, write, *rows):
    """A log, and what a run makes of it: samples and generations of the dataset `d`."""
    log = tmp_path / "log"
    write(log / "x.eval" if write is inspect_eval else log / "m_d.tsv" if write is tsv else log, *([list(rows)] if write is tsv else rows))
    made = list(recorded_samples(AdapterContext(log, source=log)))
    samples = [as_row(m) for m in made if not isinstance(m, Image)]
    write_table(tmp_path / "data" / "samples.parquet", samples, SAMPLES)
    write_table(tmp_path / "data" / "images" / "00000.parquet", [], IMAGES)
    model = recorded(ModelContext("m", folder=log), source="log")
    table = model.lookup("d", read_table(tmp_path / "data" / "samples.parquet", SAMPLES))
    write_table(tmp_path / "generations.parquet", table, GENERATIONS)
    return tmp_path


def exported(folder, name, source=True, tables=None, **options):
    """The files of an export as one text, and what it says that it lost."""
    out = folder / f"out_{name}_{source}"
    out.mkdir()
    kept = folder / "log" if source else folder / "gone"
    part = ExportPart("m", "d", Variant("clean"), 7, folder / "data", folder / "generations.parquet", ARGS, kept)
    decoding = {"max_new_tokens": 16, "temperature": 0.7}
    models = {"m": {"plugin": "recorded", "args": {"source": "log"}}}
    context = ExportContext(
        folder=out,
        spec="bench",
        parts=(part,),
        time=MADE,
        decoding=decoding,
        models=models,
        tables=tables or {},
        higher_is_better={"accuracy": True},
    )
    load("exports", name)(context, **options)
    texts = []
    for path in sorted(p for p in out.rglob("*") if p.is_file()):
        if path.suffix == ".eval":
            with zipfile.ZipFile(path) as archive:
                texts += [archive.read(member).decode() for member in archive.namelist()]
        elif path.suffix != ".parquet":
            texts.append(path.read_text())
    return out, "\n".join(texts), context.lost


LOGS = {
    "lm-eval words": (leh, [leh_open(i, LETTERED, "B", "(B)") for i in range(2)], f"Q: {LETTERED}\nA:"),
    "lm-eval numbers": (leh, [leh_choice(i, f"Which {i}?", ["x", "y"], 1, [-1, -2]) for i in range(2)], "Which 1?\nAnswer:"),
    "lmms-eval": (lmms, [lmms_row(i, LETTERED, "B", "B") for i in range(2)], f"{LETTERED}\nAnswer briefly."),
    "inspect": (inspect_eval, [inspect_sample(str(i), LETTERED, "B", "B") for i in range(2)], LETTERED),
    "vlmevalkit": (tsv, [vek_row(i, "B. a dog") for i in range(2)], None),
}


@pytest.mark.parametrize("name", ["lm_eval", "lmms_eval", "inspect"])
@pytest.mark.parametrize("kind", LOGS)
def test_the_prompt_is_the_log_s_or_none(tmp_path, kind, name):
    write, rows, prompt = LOGS[kind]
    folder = logged(tmp_path, write, *rows)
    for here in (True, False):
        _, text, lost = exported(folder, name, here)
        assert INSTRUCTION not in text and not [word for word in OURS if word in text]
        known = prompt is not None and here
        assert (json.dumps(prompt)[1:-1] in text) if known else any(what.startswith(NO_PROMPT) and n == 2 for what, n in lost.items())
        assert known or "Just say the letter" not in text


@pytest.mark.parametrize("name", ["vlmevalkit", "hf"])
@pytest.mark.parametrize("kind", LOGS)
def test_formats_without_prompts_have_none_of_ours(tmp_path, kind, name):
    write, rows, _ = LOGS[kind]
    _, text, _ = exported(logged(tmp_path, write, *rows), name, **({"table": "tsv"} if name == "vlmevalkit" else {}))
    assert INSTRUCTION not in text and not [word for word in OURS if word in text]


@pytest.mark.parametrize("name", ["lm_eval", "lmms_eval", "inspect", "vlmevalkit"])
@pytest.mark.parametrize("kind", LOGS)
def test_answers_in_words_come_back_as_they_were(tmp_path, kind, name):
    write, rows, prompt = LOGS[kind]
    folder = logged(tmp_path, write, *rows)
    out, _, _ = exported(folder, name, **({"table": "tsv", "images": False} if name == "vlmevalkit" else {}))
    samples = read_table(folder / "data" / "samples.parquet", SAMPLES)
    model = recorded(ModelContext("m", folder=out), source="again", tasks={"d": "d"})
    assert model.lookup("d", samples).equals(read_table(folder / "generations.parquet", GENERATIONS)) and not model.left_out
    if prompt is not None and name != "vlmevalkit":
        assert set(model.prompts("d", samples).values()) <= {prompt, "Which 0?\nAnswer:"}


MANY = [f"thing {i}" for i in range(30)]
"""Options of which the last four have no letter; the right one is the 28th."""
BY_NUMBERS = leh_choice(0, "Which?", MANY, 27, [-1.0 - abs(i - 27) for i in range(30)])
IN_WORDS = leh_open(0, "Which?", "thing 27", "It is thing 27.", doc={"question": "Which?", "choices": MANY})


@pytest.mark.parametrize(
    ("name", "row", "told"),
    [
        ("lm_eval", BY_NUMBERS, '"target": "27"'),
        ("lm_eval", IN_WORDS, '"target": "28"'),
        ("lmms_eval", BY_NUMBERS, '"target": "27"'),
        ("inspect", BY_NUMBERS, '"target": "2"'),  # its own labels begin with 1 again after Z
        ("inspect", IN_WORDS, '"target": "2"'),
        ("every_eval_ever", BY_NUMBERS, '"extracted_value": "28"'),
    ],
)
def test_options_beyond_the_letters_come_back(tmp_path, name, row, told):
    folder = logged(tmp_path, leh, row)
    samples, answers = read_table(folder / "data/samples.parquet", SAMPLES), read_table(folder / "generations.parquet", GENERATIONS)
    assert (samples["choices"][0].as_py(), samples["answer_index"][0].as_py()) == (MANY, 27)
    score = {"model": "m", "dataset": "d", "variant": "clean", "slice": "all", "metric": "accuracy", "value": 1.0, "n": 1, "n_unscored": 0}
    write_scores(folder / "scores.parquet", [score])
    out, text, _ = exported(folder, name, tables={"scores": folder / "scores.parquet"})
    assert told in text
    model = recorded(ModelContext("m", folder=out), source="again", tasks={"d": "d"})
    assert model.lookup("d", samples)["option_logits"].equals(answers["option_logits"]) and not model.left_out
    (again,) = recorded_samples(AdapterContext(out, source=out))
    assert again.answer_index == 27


def test_vlmevalkit_has_no_columns_for_more_options_than_letters(tmp_path):
    message = "dataset 'd': sample '0' has 30 options, and VLMEvalKit's tables have columns for 26, A to Z; export other"
    with pytest.raises(ExportError, match=message):
        exported(logged(tmp_path, leh, BY_NUMBERS), "vlmevalkit", table="tsv")
