"""The same sixteen replies in every format of logs: the score is the truth, whoever logged them and whatever the spec leaves out."""

import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.sample import SAMPLES, Image
from qualm.runners.contracts.models import ModelContext
from qualm.runners.plugins.models.recorded import recorded
from qualm.runners.runtime.records import read_table
from tests.support.data.recordings import b64, inspect_eval, inspect_sample, leh, leh_open, lmms, lmms_row, png, tsv, vek_row
from tests.support.projects.scored import scored
from tests.support.projects.stages import ref

REPLIES = [
    *("D", "D. coffee", "(D)", "D)", "The answer is (B)", "coffee", "A. coffee", "**D**", "Answer: D", "the correct option is D."),
    *("It is coffee.", "I am not sure", "D\n\nIt is dark.", "A or D", "I cannot tell.", "d"),
]
OPTIONS = dict(zip("ABCD", ("tea", "juice", "milk", "coffee"), strict=True))
QUESTION = "What is in the cup?"
LETTERED = "\n".join([QUESTION, *(f"{letter}. {text}" for letter, text in OPTIONS.items()), "Answer with the letter."])


def vek(folder):
    tsv(folder / "m_d.tsv", [vek_row(i, reply, question=QUESTION, **{**OPTIONS, "answer": "D"}) for i, reply in enumerate(REPLIES)])
    rows = [vek_row(i, question=QUESTION, **{**OPTIONS, "answer": "D"}, image=b64(png(side=64))) for i in range(16)]
    tsv(folder / "d.tsv", rows)


LOGS = {
    "vlmevalkit": vek,
    "lm-eval": lambda folder: leh(folder, *(leh_open(i, LETTERED, "D", reply) for i, reply in enumerate(REPLIES))),
    "lmms-eval": lambda folder: lmms(folder, *(lmms_row(i, LETTERED, "D", reply) for i, reply in enumerate(REPLIES))),
    "inspect": lambda folder: inspect_eval(
        folder / "x.eval", *(inspect_sample(str(i), QUESTION, "D", r, choices=list(OPTIONS.values())) for i, r in enumerate(REPLIES))
    ),
}


@pytest.mark.parametrize("judge", ["rules", "option_match"])
@pytest.mark.parametrize("tool", LOGS)
def test_the_truth_is_eleven_of_sixteen(tmp_path, monkeypatch, tool, judge):
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "log"
    log.mkdir()
    LOGS[tool](log)
    made = list(recorded_samples(AdapterContext(log, source=log)))
    samples = [m for m in made if not isinstance(m, Image)]
    pictures = {m.image_id for m in made if isinstance(m, Image)}
    assert all(s.image_id in pictures for s in samples) or tool != "vlmevalkit"
    scored(samples, {}, [ref(judge)], [ref("accuracy")])  # writes the samples
    table = recorded(ModelContext("m", folder=log), source="log").lookup("d", read_table(tmp_path / "data/d/samples.parquet", SAMPLES))
    texts = dict(zip(table["sample_id"].to_pylist(), table["text"].to_pylist(), strict=True))
    found = scored(samples, texts, [ref(judge)], [ref("accuracy"), ref("idk_rate")])
    accuracy, refusals = found["all", "accuracy"], found["all", "idk_rate"]
    assert (accuracy["value"], accuracy["n"], accuracy["n_unscored"]) == (pytest.approx(11 / 15), 15, 1)
    assert (refusals["value"], refusals["n"]) == (2 / 16, 16)
