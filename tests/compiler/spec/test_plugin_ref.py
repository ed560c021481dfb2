import pytest

from qualm.compiler.spec.plugin_ref import DATA, Ref, artifact_path, located, prompt_path, prompts_folder, slug
from qualm.registry.plugins import registry


def ref(kind, name, args=None, **more):
    return Ref(name, registry.get(kind, name), args or {}, **more)


def test_what_is_a_stage_of_its_own():
    assert ref("perturbations", "inv").is_stage and not ref("perturbations", "blur").is_stage
    assert ref("perturbations", "blur", materialize=True).is_stage


def test_whether_the_right_answer_stays():
    assert ref("perturbations", "blur").keeps_answer and not ref("perturbations", "blur", scored=False).keeps_answer
    loses = next(n for n in registry.names("perturbations") if registry.get("perturbations", n).declares.get("KEEPS_ANSWER") is False)
    assert not ref("perturbations", loses).keeps_answer and ref("perturbations", loses, scored=True).keeps_answer


def test_plugins_and_artifacts_that_arguments_name():
    chosen = {"generator": {"plugin": "hf", "args": located(registry.get("generators", "hf"), {"artifact": "llm"})}}
    named = ref("perturbations", "inv", chosen)
    assert [p.name for p in named.plugins] == ["inv", "hf"] and named.artifacts == (f"{DATA}/llm",)
    assert named.as_json() == {"label": "inv", "plugin": "inv", "args": chosen}


@pytest.mark.parametrize("name, path", [("scene-vlm-base", f"{DATA}/scene-vlm-base"), ("mine:a b", "results/mine/models/a-b")])
def test_where_artifacts_lie(name, path):
    assert artifact_path(name) == path


def test_prompts_are_those_of_the_project_one_stands_in(tmp_path, monkeypatch):
    assert prompt_path("x").endswith("specs/prompts/x.md")
    (tmp_path / "specs" / "prompts").mkdir(parents=True)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert prompts_folder() == tmp_path / "specs" / "prompts"


def test_labels_as_parts_of_paths():
    assert slug("blur@radius=2.5") == "blur-radius-2.5" and slug("a b/c") == "a-b-c" and slug("A_b.c-1") == "A_b.c-1"
