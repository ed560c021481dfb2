"""`qualm cite`: data, models, methods and software of real specs, each once and below what it is cited for."""

import json
import re
import subprocess

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.main import app
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.cite import bibliography
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.entries import card


def test_the_papers_of_vlm_uqbench_at_its_own_scale() -> None:
    made = bibliography(Project(), "vlm_uqbench")
    said = made.cited_for
    assert said["goyal2017making"] == {"datasets": ["vqav2"]}
    assert said["peng2023kosmos2"] == {"models": ["microsoft/kosmos-2-patch14-224"]}
    assert said["liu2024improved"] == {"models": ["llava-hf/llava-1.5-7b-hf"]}
    assert said["wang2024qwen2vl"] == {"models": ["Qwen/Qwen2-VL-7B-Instruct"]}
    assert said["kuhn2023semantic"] == said["farquhar2024detecting"] == {"estimators": ["semantic_entropy"]}
    assert said["radford2021learning"] == {"models": ["clip-vit-large-patch14-336"], "perturbations": ["clip_mask"]}
    assert said["wang_vlmuqbench"]["perturbations"][0] == "amb" and said["wang_vlmuqbench"]["datasets"] == ["hallucination"]
    assert said["he2021deberta"] == {"models": ["microsoft/deberta-large-mnli"]} and made.without == []


@pytest.mark.parametrize("spec", Project().specs())
def test_nothing_of_our_specs_goes_uncited_but_our_own_model(spec: str) -> None:
    assert set(bibliography(Project(), spec).without) <= {"models: scene-vlm-base"}


def test_nested_plugins_are_cited_too() -> None:
    said = bibliography(Project(), "certainly_uncertain").cited_for
    assert said["hu2022lora"] == {"tunings": ["lora"]}
    assert said["suvorov2022resolution"]["inpainters"] == ["lama"]
    assert "grounded_sam" in said["liu2024grounding"]["masks"]


def test_it_prints_a_bib_file() -> None:
    done = CliRunner().invoke(app, ["cite", "quickstart"], catch_exceptions=False)
    assert done.exit_code == 0 and done.stdout == bibliography(Project(), "quickstart").text()
    keys = re.findall(r"^@\w+\{([^,]+),$", done.stdout, re.MULTILINE)
    assert len(keys) == len(set(keys)) and {"johnson2017clevr", "kadavath2022language", "qualm"} <= set(keys)
    assert re.search(r"% estimators: [^\n]*semantic_entropy[^\n]*\n@inproceedings\{kuhn2023semantic,", done.stdout)
    assert all(line.startswith(("%", "@", "  ", "}")) for line in done.stdout.splitlines() if line)


def test_the_software_is_cited_at_its_commit() -> None:
    made = bibliography(Project(), "quickstart")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Project().root, capture_output=True, text=True, check=True).stdout
    assert made.entries["qualm"].endswith(f",\n  note={{commit {head[:12]}}}\n}}") and made.cited_for["qualm"].keys() == {"software"}


def test_a_plugin_that_cites_what_is_not_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qualm.registry.entries.references.references", dict)
    with pytest.raises(ProjectError, match=r"CITES names '.*', which is not in references\.bib"):
        bibliography(Project(), "quickstart")


def test_json_says_the_same() -> None:
    done = CliRunner().invoke(app, ["cite", "quickstart", "--json"], catch_exceptions=False)
    made = bibliography(Project(), "quickstart")
    assert json.loads(done.stdout) == made.as_json() and {e["key"] for e in json.loads(done.stdout)["entries"]} == set(made.entries)


@pytest.mark.parametrize(
    ("citation", "printed"),
    [
        ("@misc{mine, title={Mine}, year={2026}}", "% datasets: scenes, scenes_mc\n@misc{mine, title={Mine}, year={2026}}\n"),
        ("Doe, Jane:\nScenes (2026)", "% nothing on record to cite for datasets: scenes, whose card says: Doe, Jane: Scenes (2026)\n"),
    ],
)
def test_whatever_a_card_says_is_printed(monkeypatch: pytest.MonkeyPatch, citation: str, printed: str) -> None:
    own = card.load_card("synthetic_scenes").model_copy(update={"citation": citation})
    monkeypatch.setattr("qualm.registry.entries.card.load_card", lambda name: own)
    assert printed in bibliography(Project(), "quickstart").text()


def test_bibtex_of_a_card_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    own = card.load_card("synthetic_scenes").model_copy(update={"citation": "@misc{cut, title={x}"})
    monkeypatch.setattr("qualm.registry.entries.card.load_card", lambda name: own)
    with pytest.raises(ProjectError, match=r"^card 'synthetic_scenes': citation: BibTeX: line 1: @misc\{ does not end"):
        bibliography(Project(), "quickstart")
