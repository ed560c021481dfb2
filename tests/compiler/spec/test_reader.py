"""Plugins as sections read them: sweeps, labels, numbers however they are written."""

from pathlib import Path

from tests.compiler.spec.resolving import GOOD, change, resolve


def test_a_list_of_values_is_a_product_axis(tmp_path: Path) -> None:
    text = change("ece: {bins: 15}", "ece: {bins: [10, 15], rows: [all, test]}").replace("test: 10", "test: [5, 10]")
    resolved = resolve(tmp_path, text)
    assert [r.label for r in resolved.perturbations] == ["blur@radius=2", "blur@radius=6"]
    assert [d.label for d in resolved.datasets] == ["scenes@test=10", "scenes@test=5"]
    assert [m.label for m in resolved.metrics if m.plugin.name == "ece"] == [
        "ece@bins=10,rows=all",
        "ece@bins=10,rows=test",
        "ece@bins=15,rows=all",
        "ece@bins=15,rows=test",
    ]


def test_how_a_number_is_written_is_no_content(tmp_path: Path) -> None:
    def args(text: str) -> object:
        r = resolve(tmp_path, text)
        return [(x.label, repr(x.args)) for x in (*r.metrics, *r.perturbations)]

    assert args(GOOD) == args(change("bins: 15", "bins: 15.0")) == args(change("[2, 6]", "[2.0, 6.0]"))


def test_a_perturbation_that_a_model_writes_is_called_as_the_spec_names_it(tmp_path: Path) -> None:
    text = GOOD.replace(
        "  - blur: {radius: [2, 6]}", "  - inv: {generator: {openai: {model: m}}}\n  - sbj: {generator: [rules, hf: {artifact: llm}]}"
    )
    labels = [p.label for p in resolve(tmp_path, text).perturbations]
    assert labels == ["inv@generator=openai(model=m)", "sbj@generator=hf(artifact=llm)", "sbj@generator=rules"]
