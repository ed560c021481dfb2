"""`where:`, `uncertain:` and `disjoint:` at compile time: what reaches the data stage, and mistakes at their own characters."""

from __future__ import annotations

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.registry.entries.card import load_card
from qualm.registry.plugins.registry import ROOT

HEAD = """\
qualm: 1
name: t
datasets:
"""


def resolve(tmp_path, datasets):
    path = tmp_path / "t.yaml"
    path.write_text(HEAD + datasets)
    return resolve_file(path, tmp_path, RunWide(default="t"))


def problems(tmp_path, datasets):
    with pytest.raises(SpecError) as caught:
        resolve(tmp_path, datasets)
    return [str(p) for p in caught.value.problems]


def test_what_the_stage_is_told(tmp_path):
    resolved = resolve(
        tmp_path,
        """\
  few: {card: synthetic_scenes, where: "objects<=2   and  kind != 'color'", disjoint: [many]}
  many: {card: synthetic_scenes, where: 3<objects, uncertain: not kind=='counting'}
  all: {card: synthetic_scenes}
""",
    )
    params = {stage.name: stage.params for stage in make_plan(resolved).stages}
    few, many, everything = params["data-few"], params["data-many"], params["data-all"]
    assert few["where"] == "meta.objects <= 2 and meta.kind != 'color'"  # how it is spelled is no content
    assert few["disjoint"] == {"many": "3 < meta.objects"}
    assert many["uncertain"] == "not meta.kind == 'counting'"
    assert not {"where", "uncertain", "disjoint"} & everything.keys()


def test_a_mistake_stands_at_its_character(tmp_path):
    found = problems(
        tmp_path,
        """\
  a: {card: synthetic_scenes, where: objects > 2 and knd == 'color'}
  b: {card: synthetic_scenes, where: "kind == 'color' &&  objects > 2"}
  c: {card: synthetic_scenes, where: 'kind == ''color'' or level = 2'}
  d:
    card: synthetic_scenes
    where: >-   # folded
      objects > 2
      and (kind == "color"

      or answerabel)
  e:
    card: synthetic_scenes
    uncertain: |
      objects > 2
        or objects >
  f:
    card: synthetic_scenes
    where: &anchor objects > 2
      and nought == 1
  g: {card: synthetic_scenes, where: "kind == \\"color\\" and (objects)"}
""",
    )
    assert found == [
        "t.yaml:4:54: datasets.a.where: samples have no field 'knd' (did you mean 'kind'?)",
        "t.yaml:5:55: datasets.b.where: expected a word or sign of this language, got '&&' (write `and`)",
        "t.yaml:6:66: datasets.c.where: expected a word or sign of this language, got '=' (write `==`)",
        "t.yaml:13:10: datasets.d.where: samples have no field 'answerabel' (did you mean 'answerable'?)",
        "t.yaml:18:21: datasets.e.uncertain: invalid syntax (write comparisons such as `LQI >= 4` with `and` or `or` between them, "
        "and texts in quotes)",
        "t.yaml:22:11: datasets.f.where: samples have no field 'nought' (there are: sample_id, image_id, question, category, split, "
        "source, group, pair_id, answer_index, pictures, answerable, kind, objects, level)",
        "t.yaml:23:62: datasets.g.where: expected a comparison, got meta.objects alone (such as `meta.objects >= 2`)",
    ]


def test_fields_are_those_that_the_data_set_is_told_to_keep(tmp_path):
    kept = "{card: mm_aqa, meta: [axis], where: axis == 'evidence'}"
    assert make_plan(resolve(tmp_path, f"  a: {kept}\n")).stage("data-a").params["where"] == "meta.axis == 'evidence'"
    (found,) = problems(tmp_path, f"  a: {kept.replace('meta: [axis], ', '')}\n")
    assert "datasets.a.where: samples have no field 'axis'" in found


def test_hostile_expressions(tmp_path):
    deep = "(" * 5000 + "answerable" + ")" * 5000
    (found,) = problems(tmp_path, f"  a: {{card: synthetic_scenes, where: {'x' * 100_000}}}\n")
    assert "where: expected at most 10,000 characters, got 100,000" in found
    (found,) = problems(tmp_path, f'  a: {{card: synthetic_scenes, where: "{deep}"}}\n')
    assert "expected at most 10,000 characters" in found
    (found,) = problems(tmp_path, f'  a: {{card: synthetic_scenes, where: "{deep[4000:-4000]}"}}\n')
    assert "datasets.a.where: " in found and "parentheses" in found


def test_disjoint_of_what(tmp_path):
    found = problems(
        tmp_path,
        """\
  a: {card: synthetic_scenes, where: objects > 2, disjoint: [a, bb, c, d]}
  b: {card: synthetic_scenes, where: objects < 2}
  c: {card: synthetic_scenes, level: hard, where: objects < 2}
  d: {card: synthetic_scenes}
""",
    )
    assert found == [
        "t.yaml:4:62: datasets.a.disjoint[0]: expected another dataset of this spec, got 'a' (there are: b, c, d)",
        "t.yaml:4:65: datasets.a.disjoint[1]: expected another dataset of this spec, got 'bb' (did you mean 'b'?)",
        "t.yaml:4:69: datasets.a.disjoint[2]: 'c' is of another card, source or parameters, so it cannot share samples with this one "
        "(name datasets of one source)",
        "t.yaml:4:72: datasets.a.disjoint[3]: 'd' has no `where:` and holds every sample of its source (give it one, or leave it out here)",
    ]


def test_an_expression_is_text(tmp_path):
    message = "t.yaml:4:38: datasets.a.where: expected text, got 3 (text in quotes, as in '3' or 'no')"
    assert problems(tmp_path, "  a: {card: synthetic_scenes, where: 3}\n") == [message]


def test_subsets_of_a_card(tmp_path):
    resolved = resolve(
        tmp_path,
        """\
  clean: {card: vizwiz_ans_difference, where: clean, disjoint: [cross]}
  cross: {card: vizwiz_ans_difference, where: cross}
  either: {card: vizwiz_ans_difference, where: (clean or cross) and not category == 'yes-no', uncertain: cross}
""",
    )
    params = {stage.name: stage.params for stage in make_plan(resolved).stages}
    cross = "meta.AMB == 5 or meta.IVE == 5"
    assert params["data-cross"]["where"] == cross
    assert params["data-clean"]["disjoint"] == {"cross": cross}
    assert params["data-either"]["uncertain"] == cross
    assert params["data-either"]["where"].endswith(f" or ({cross})) and (not category == 'yes-no')")
    assert problems(tmp_path, "  a: {card: vizwiz_ans_difference, where: cros}\n") == [
        "t.yaml:4:43: datasets.a.where: samples have no field 'cros' (did you mean 'cross'?)"
    ]


def test_a_card_whose_subset_reads_what_its_adapter_does_not_give(tmp_path, monkeypatch):
    card = load_card("vizwiz_ans_difference").model_copy(update={"subsets": {"cross": "AMBB == 5"}})
    monkeypatch.setattr("qualm.registry.entries.card.load_card", lambda name: card)
    (problem,) = problems(tmp_path, "  a: {card: vizwiz_ans_difference}\n")
    wanted = "subset 'cross' of registry/cards/vizwiz_ans_difference.yaml: character 1: samples have no field 'AMBB' (did you mean 'AMB'?)"
    assert problem == f"t.yaml:4:13: datasets.a.card: {wanted}"


def test_asking_whether_questions_are_uncertain(tmp_path):
    resolved = resolve(tmp_path, "  a: {card: vq_focusambiguity, ask_answerable: ambiguity_cot}\n")
    stage = make_plan(resolved).stage("data-a")
    assert stage.params["ask_answerable"] == stage.inputs["ask_answerable"] == "specs/prompts/ambiguity_cot.md"
    assert "specs/prompts/ambiguity_cot.md" in stage.deps
    (found,) = problems(tmp_path, "  a: {card: vq_focusambiguity, ask_answerable: ambiguity_cat}\n")
    wanted = "expected the name of a file specs/prompts/NAME.md, got 'ambiguity_cat' (did you mean 'ambiguity_cot'?)"
    assert found == f"t.yaml:4:48: datasets.a.ask_answerable: {wanted}"
    (found,) = problems(tmp_path, "  a: {card: vq_focusambiguity, ask_answerable: knowledge}\n")
    assert "knowledge.md: " in found and "no such placeholder; there are: question" in found


@pytest.mark.parametrize("name", ["vlm_uqbench", "vlm_uqbench_ambiguity"])
def test_the_paper_s_140_questions_are_in_two_splits_and_both_are_scored(name):
    plan = make_plan(resolve_file(ROOT / "specs" / f"{name}.yaml", ROOT, RunWide(default=name)))
    focus = {stage.params["dataset"] for stage in plan.stages if stage.params.get("card") == "vq_focusambiguity"}
    splits = {name: split for name, split in plan.stage("score").params["splits"].items() if name in focus}
    assert "focus" in focus and splits == {key: ["train", "val"] for key in focus}


@pytest.mark.parametrize("name", ["ambiguity_zero_shot", "ambiguity_cot", "ambiguity_enumerate"])
def test_our_prompts_have_their_place(tmp_path, name):
    (use,) = resolve(tmp_path, f"  a: {{card: vq_focusambiguity, ask_answerable: {name}}}\n").datasets
    assert use.select["ask_answerable"].endswith(f"{name}.md")


def test_what_people_kept_is_a_stage_between_a_data_set_and_its_readers(tmp_path):
    plan = make_plan(
        resolve(
            tmp_path,
            """\
  photos: {card: vizwiz_ans_difference, where: clean or image, curated: my-reviews, splits: [val]}
  scenes: {card: synthetic_scenes, test: 10, curated: theirs, unreviewed: keep}
models: {base: {hf_vlm: {artifact: llava}}}
judges: [rules]
metrics: [accuracy]
""",
        )
    )
    whole, curated = "results/t/data/photos", "results/t/curated/photos"
    photos, scenes = plan.stage("curate-photos"), plan.stage("curate-scenes")
    assert (plan.stage("data-photos").outputs, photos.outputs) == tuple({"dataset": p, "card": f"{p}.md"} for p in (whole, curated))
    assert photos.inputs == {"dataset": whole, "card": f"{whole}.md", "reviews": "registry/data/my-reviews"}
    assert photos.params["unreviewed"] == "drop" and photos.params["splits"] == {"photos": ["val"]}
    assert photos.params["subsets"]["cross"] == "meta.AMB == 5 or meta.IVE == 5"
    assert list(photos.params["subsets"]) == ["clean", "cross", "image", "text"], "in an order of their own"
    assert scenes.params == {"dataset": "scenes", "unreviewed": "keep", "lone": "drop"}
    assert plan.stage("infer-base-photos").inputs["datasets"] == {"photos": curated}
    assert plan.stage("report").inputs["datasets"] == {"photos": curated, "scenes": "results/t/curated/scenes"}
    assert not any(whole in stage.deps for stage in plan.stages if stage.kind != "curate")


def test_what_is_made_of_the_samples(tmp_path):
    resolved = resolve(
        tmp_path,
        """\
  plain: {card: mmbench}
  made: {card: mmbench, rotations: false, prepare: six_options}
  both: {card: mmbench, prepare: [six_options, {six_options_published: {of: mmbench}}]}
""",
    )
    plan = make_plan(resolved)
    stages = {stage.params["dataset"]: stage for stage in plan.stages}
    ways = {"seed": None, "fillers": "distinct", "place": "uniform", "surplus": "drop_wrong", "rotations": "together"}
    assert stages["made"].params["prepare"] == {"plugin": "six_options", "args": ways}
    assert stages["made"].params["args"] == {"table": "mmbench_dev_20230712.tsv", "rotations": False}
    assert "prepare" not in stages["plain"].params
    swept = [label for label in stages if label.startswith("both@")]
    assert len(swept) == 2 and {stages[label].params["prepare"]["plugin"] for label in swept} == {"six_options", "six_options_published"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("six_option", "t.yaml:4:31: datasets.a.prepare: no preparations plugin named 'six_option'; did you mean 'six_options'?"),
        ("{six_options: {fill: x}}", "six_options has no parameter 'fill'"),
        ("{six_options_published: {}}", "six_options_published needs the parameter 'of'"),
        ("{six_options: {place: random}}", "expected one of uniform or as_given, got the text 'random'"),
        ("3", "expected one plugin of preparations"),
    ],
)
def test_preparations_that_are_none(tmp_path, given, says):
    (found,) = problems(tmp_path, f"  a: {{card: mmbench, prepare: {given}}}\n")
    assert says in found
