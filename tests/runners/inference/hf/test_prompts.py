"""Prompts of a spec with real models: what is read, what is kept, and that the batch does not matter."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.models import ModelError
from qualm.runners.prompts.question import Prompt
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import StageError
from tests.support.models.loaded import loaded_model
from tests.support.models.tiny_gemmas import tiny_kosmos2
from tests.support.models.tiny_models import TEMPLATES, tiny_idefics3, tiny_llava, tiny_llm
from tests.support.projects.tiny_project import Project

SIGNALS = ["text", "token_logprobs", "p_yes", "p_true", "said_confidence", "draws", "logprobs_without_image", "logprobs_without_question"]
FULL = {"system": "Be brief.", "template": "Question: {question}\n{options}\nAnswer:", "examples": {"split": "train", "shots": 2}}
OPEN = {**FULL, "template": "Question: {question}\nAnswer:"}


def with_train(project, name, n=6):
    """The last half of a dataset becomes its train split."""
    path = project.folder / "results/t/data" / name / "samples.parquet"
    rows = read_table(path, SAMPLES).to_pylist()
    for i, row in enumerate(rows):
        row |= {"split": "test" if i < n else "train", "references": ["red"] if not row["choices"] else []}
    write_table(path, rows, SAMPLES)


@pytest.fixture(scope="module", params=[tiny_llava, tiny_idefics3])
def model(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("model"))


@pytest.fixture
def project(model, tmp_path):
    made = Project(tmp_path, model)
    made.dataset("open", 12)
    made.dataset("choice", 12, choices=True)
    for name in ("open", "choice"):
        with_train(made, name)
    return made


def rows(project, name):
    return pq.read_table(project.folder / f"results/t/generations/base/{name}.parquet").to_pylist()


@pytest.mark.slow
def test_few_shot_with_images_and_every_signal_is_equal_in_every_batch(project):
    found = []
    for batch_size in (1, 5):
        project.stage(["open"], needs=SIGNALS, draws=2, temperature=0.7, top_p=1.0, prompt=OPEN)
        assert project.run(batch_size).counters["answers computed"] == 6
        (project.folder / ".qualm").rename(project.folder / f"kept{batch_size}")
        found.append(rows(project, "open"))
    assert len(found[0]) == 6 * 3
    for one, other in zip(*found, strict=True):
        assert (one["text"], one["input_digest"]) == (other["text"], other["input_digest"])
        for name in ("token_logprobs", "logprobs_without_image", "logprobs_without_question"):
            assert one[name] == pytest.approx(other[name], abs=1e-4)
        assert one["p_true"] == pytest.approx(other["p_true"], abs=1e-4) and one["p_yes"] == pytest.approx(other["p_yes"], abs=1e-4)


@pytest.mark.slow
def test_letters_are_read_from_log_probabilities_after_any_template(project):
    project.stage(["choice"], prompt=FULL)
    project.run()
    found = rows(project, "choice")
    assert len(found) == 6 and all(len(row["option_logits"]) == 6 for row in found)


@pytest.mark.slow
def test_an_edit_asks_again_just_what_it_changes(project):
    project.stage(["open", "choice"])
    assert project.run().counters["answers computed"] == 12
    spelled_out = {"template": "{question}\n{options}\n{instruction}"}
    project.stage(["choice"], prompt=spelled_out)
    assert project.run().counters["answers computed"] == 0
    project.stage(["choice"], prompt={"template": "{question}\n{options}"})
    assert project.run().counters["answers computed"] == 6
    project.stage(["open"], prompt={"answer_format": "short"})
    assert project.run().counters["answers computed"] == 6


@pytest.mark.parametrize(
    ("name", "prompt", "expected"),
    [
        ("open", {"template": "{question} {options}"}, "{options} needs questions with options, and all of this dataset are open"),
        ("open", {"answer_format": "letter"}, "`answer_format: letter` needs questions with options"),
        ("choice", {"template": "{question}"}, "expected {options} in the template"),
        ("choice", {"answer_format": "short"}, "answers questions with options in words, which a judge reads"),
        ("open", {"template": "{hint}\n{question}"}, "the template has {hint}, and no sample has a hint"),
        ("open", {"examples": {"split": "test", "shots": 1}}, "'test' is answered, and examples are never taken from scored samples"),
        ("open", {"examples": {"split": "dev", "shots": 1}}, "'dev' is no split of it; splits that are not answered: 'train'"),
        ("open", {"examples": {"split": "train", "shots": 7}}, "expected at most 6, the samples of split 'train'"),
        (
            "open", {"examples": {"written": [{"question": "What color is the cube 0 ?", "answer": "red", "images": ["0.png"]}]}},
            "is sample 's0000', which models answer; examples are never taken from scored samples",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_dataset_is_refused(project, name, prompt, expected):
    images = pq.read_table(project.folder / "results/t/data/open/images/00000.parquet").to_pylist()
    (project.folder / "0.png").write_bytes(images[0]["image"]["bytes"])
    project.stage([name], prompt=prompt)
    with pytest.raises(StageError) as caught:
        project.run()
    assert expected in str(caught.value)


def test_a_text_only_model_has_a_system_message_and_examples(tmp_path):
    project = Project(tmp_path, tiny_llm(tmp_path / "model"))
    project.dataset("open", 12)
    path = tmp_path / "results/t/data/open/samples.parquet"
    with_train(project, "open")
    write_table(path, [{**row, "image_id": None} for row in read_table(path, SAMPLES).to_pylist()], SAMPLES)
    project.stage(["open"], prompt=OPEN)
    project.run(1)
    before = rows(project, "open")
    project.stage(["open"], prompt={**OPEN, "system": "Be long."})
    project.run(4)
    assert len(before) == 6 and {r["input_digest"] for r in before}.isdisjoint(r["input_digest"] for r in rows(project, "open"))


def test_a_chat_template_without_a_system_message_is_refused(tmp_path):
    user = "{% for m in messages if m.role == 'user' %}{% for c in m.content if c.type == 'text' %}{{ c.text }}{% endfor %}{% endfor %}"
    model = loaded_model(tiny_llava(tmp_path / "model"), "plain", template=user)
    assert model.render(Prompt().messages("What?", n_images=0)) == "What?"
    with pytest.raises(ModelError, match="its chat template does not show the system message; put it into the prompt's `template`"):
        model.render(Prompt(system="Be brief.").messages("What?", n_images=0))
    raising = loaded_model(tiny_llava(tmp_path / "other"), "gemma", template="{{ raise_exception('System role not supported') }}")
    with pytest.raises(ModelError, match="model 'gemma': its chat template refuses the conversation: System role not supported"):
        raising.render(Prompt(system="Be brief.").messages("What?", n_images=0))


def test_a_model_of_one_image_is_not_shown_those_of_examples(tmp_path):
    project = Project(tmp_path, tiny_kosmos2(tmp_path / "model"))
    project.dataset("open", 12)
    with_train(project, "open")
    args = {"artifact": "registry/data/tiny", "template": TEMPLATES["kosmos2"]}
    project.stage(["open"], needs=["text"], args=args, prompt=OPEN | {"system": ""})
    with pytest.raises(StageError, match="has 3 images, 2 of them of the prompt's examples: kosmos-2, the family"):
        project.run()
