from __future__ import annotations

import json
from pathlib import Path

import pytest

from qualm.compiler.commands.listing import _gives, _memories, plugin_table, print_named, print_plugin, published_table
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.entries.published_models import published
from qualm.registry.plugins import registry


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_list_of_plugins_fits_the_terminal_and_cuts_no_word(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    plugin_table(None, as_json=False)
    told = capsys.readouterr().out
    lines = told.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= columns
    assert "…" not in told, "a name of a file that is cut is no name"
    assert [line for line in lines if line in registry.KINDS] == list(registry.KINDS), "a heading for every kind, in their order"
    listed = {line.split()[0] for line in lines if line[:1].strip()}
    assert {n for k in registry.KINDS for n in registry.names(k)} <= listed


def test_one_kind_is_listed_with_the_names_of_its_parameters(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plugin_table("perturbations", as_json=False)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("cutout"))
    assert "takes: ratio, of, fill" in lines[at : at + 3]
    assert lines[-1] == "`qualm ls perturbations NAME` explains one"


def test_a_plugin_is_where_it_is_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(registry.ROOT)
    print_plugin("metrics", "ece", as_json=False)
    assert capsys.readouterr().out.startswith("ece  (metrics, runners/plugins/metrics/ece.py)\n")
    monkeypatch.chdir(tmp_path)
    print_plugin("metrics", "ece", as_json=False)
    assert f"(metrics, {registry.ROOT}/runners/plugins/metrics/ece.py)" in capsys.readouterr().out


def test_a_method_by_any_of_its_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(registry.ROOT)
    monkeypatch.setenv("COLUMNS", "120")
    print_named("EigenScore", as_json=False)
    assert capsys.readouterr().out.startswith("eigen_score  (estimators, runners/plugins/estimators/eigen_score.py)\n")
    print_named("CocoaPPL", as_json=False)
    assert capsys.readouterr().out.startswith("CocoaPPL is here, among estimators, cocoa: {confidence: perplexity}\n\ncocoa  (estimators")
    print_named("temperature", as_json=True)
    assert [(p["kind"], p["name"]) for p in json.loads(capsys.readouterr().out)] == [
        ("calibrators", "temperature"),
        ("abstentions", "temperature"),
    ]


def test_a_word_that_is_no_name_lists_what_speaks_of_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    print_named("meanings", as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "no plugin is called 'meanings'; these speak of it:"
    assert {line.split()[0] for line in lines[1:] if " estimators " in line} >= {"semantic_entropy", "vl_uncertainty"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LongTextUQ", "no plugin is called 'LongTextUQ': it splits long answers into claims, and a short answer is a single claim"),
        ("estimator", "no plugin kind 'estimator'; did you mean 'estimators'?"),
        ("semantic_entropi", "and none speaks of it; did you mean semantic_entropy (estimators), "),
        ("xyzzy", "`qualm ls` lists all plugins; their kinds are: datasets, "),
    ],
)
def test_what_is_not_there(name: str, words: str) -> None:
    with pytest.raises(ProjectError) as error:
        print_named(name, as_json=False)
    assert words in str(error.value)


QWEN = "Qwen/Qwen2-VL-7B-Instruct"


def test_one_model_by_part_of_its_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    published_table("models", "qwen2-vl-7b", False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "billion", "bf16", "int8", "4", "bit", "cache", "image", "gives"]
    assert len([line for line in lines if "/" in line and line.startswith("Qwen")]) == 1
    m = published()[QWEN]
    whole = m.parameters.total * 1e9
    apart = 2 * m.text.vocabulary * m.text.hidden  # type: ignore[union-attr]
    vision = (m.parameters.vision or 0) * 1e9
    cells = lines[1].split()
    assert cells[:3] == [QWEN, f"{m.parameters.total:.3g}", f"{whole * 2 / 2**30:.3g}"]
    assert cells[3] == f"{((apart + vision) * 2 + (whole - vision - apart)) / 2**30:.3g}"
    assert cells[4] == f"{((apart + vision) * 2 + (whole - vision - apart) * 0.5625) / 2**30:.3g}"
    assert cells[5:7] == [f"{2 * 28 * 4 * 128 * 2 / 1024:.3g}", str(m.image_tokens)] and cells[7:9] == ["all", "signals"]
    assert any(line.startswith("bf16, int8, 4 bit: GiB of weights; cache: KiB per token of each answer") for line in lines)


def test_memories_of_one_by_hand() -> None:
    sizes, whole = _memories(published()[QWEN]), published()[QWEN].parameters.total * 1e9
    assert set(sizes) == {"float32", "bfloat16", "int8", "nf4", "cache_kib"}
    assert sizes["float32"] == pytest.approx(whole * 4 / 2**30) and sizes["bfloat16"] == pytest.approx(sizes["float32"] / 2)
    assert sizes["cache_kib"] == 56 and sizes["nf4"] < sizes["int8"] < sizes["bfloat16"]
    unknown = published()[QWEN].model_copy(update={"text": None})
    assert _memories(unknown) == {}


def test_all_of_them_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    published_table("models", None, True)
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(published()) and rows[QWEN]["memory"]["cache_kib"] == 56
    published_table("models", "QWEN2-VL-7B", True)
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == [QWEN]


def test_what_is_asked_for_that_there_is_not() -> None:
    for kind in ("judges", None):
        with pytest.raises(ProjectError, match="--published is for models: `qualm ls models --published`"):
            published_table(kind, None, False)
    with pytest.raises(ProjectError, match="no published model whose name holds 'zzz'; `qualm ls models --published` lists"):
        published_table("models", "zzz", False)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({}, "all signals"),
        ({"lacks": ["p_true", "text"]}, "all but p_true, text"),
        ({"template": "x"}, "all signals; needs a `template`"),
        ({"note": "slow"}, "all signals; slow"),
        ({"lacks": ["text"], "template": "x", "note": "slow"}, "all but text; needs a `template`; slow"),
        ({"unsupported": "no safetensors", "note": "slow"}, "not supported: no safetensors"),
    ],
)
def test_what_a_model_gives(facts: dict[str, object], says: str) -> None:
    plain = {"lacks": [], "template": None, "note": "", "unsupported": ""}
    assert _gives(published()[QWEN].model_copy(update={**plain, **facts})) == says
