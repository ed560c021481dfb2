"""What a model of a spec is called elsewhere."""

import pytest

from qualm.registry.entries import card as cards
from qualm.runners.plugins.exports import _model_names
from qualm.runners.plugins.exports._model_names import PublishedModel, model_name


@pytest.mark.parametrize(
    ("label", "model", "expected"),
    [
        (
            "base",
            {"plugin": "hf_vlm", "args": {"hub": "Qwen/Qwen2-VL-7B-Instruct"}},
            PublishedModel("Qwen/Qwen2-VL-7B-Instruct", True, False),
        ),
        ("mini", {"plugin": "openai", "args": {"model": "gpt-4o-mini"}}, PublishedModel("lab/gpt-4o-mini", None, True)),
        ("other", {"plugin": "openai", "args": {"model": "qwen/qwen-vl-max"}}, PublishedModel("qwen/qwen-vl-max", None, True)),
        ("ours@k=2", {"plugin": "hf_vlm", "args": {"artifact": "no-such-card"}}, PublishedModel("lab/ours@k=2", None, False)),
        ("tuned", {}, PublishedModel("lab/tuned", None, False)),
        ("people", {"plugin": "recorded", "args": {"source": "x"}}, PublishedModel("lab/people", None, None)),
        ("org/model", {"plugin": "recorded", "args": {}}, PublishedModel("org/model", None, None)),
        ("a/b/c d", {}, PublishedModel("lab/a-b-c-d", None, False)),
    ],
)
def test_names(label: str, model: dict, expected: PublishedModel) -> None:
    found = model_name(label, model, "lab")
    assert found == expected and found.developer == expected.id.split("/")[0]


def test_a_card_says_where_a_copy_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    card = cards.load_card("transformers_model").model_copy(update={"source": "https://huggingface.co/llava-hf/llava-1.5-7b-hf"})
    monkeypatch.setattr(_model_names, "load_card", lambda name: card)
    assert model_name("x", {"plugin": "hf_vlm", "args": {"artifact": "copy"}}) == PublishedModel("llava-hf/llava-1.5-7b-hf", True, False)
