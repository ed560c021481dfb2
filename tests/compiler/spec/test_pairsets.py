"""The `pairs:` section: recipes, their categories, their labels, their stages; every mistake in its words and place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qualm.compiler.plan.layout import MAX_STAGES
from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.results.graph import draw
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.plugin_ref import slug
from qualm.compiler.spec.resolve import resolve_file
from qualm.compiler.spec.resolved import Resolved
from tests.support.checks.plugin_files import made_up

RECIPE = '''
from typing import Annotated
from qualm.registry.plugins.registry import Artifact, Chosen, DatasetName, Kind
def made_up_recipe(context, *, dataset: DatasetName, category: str = "epistemic/knowledge", times: int = 1,
                   writer: Annotated[Chosen, Kind("generators")] | None = None, lexicon: Artifact | None = None):
    """Pairs of a test."""
'''
WITHOUT_CATEGORY = """
def no_category(context, *, dataset: DatasetName): ...
"""
WRITER = '''
def made_up_writer(context, *, artifact: Artifact, dtype: str = "float32"):
    """Writes."""
'''

GOOD = """\
qualm: 1
name: t
taxonomy:
  epistemic:
    knowledge: {definition: What one cannot know by looking.}
    complexity: {definition: Too much to work out.}
datasets:
  scenes: {card: synthetic_scenes, test: 10}
pairs:
  ours:
    recipes:
      - made_up_recipe: {dataset: scenes, category: [epistemic/knowledge, epistemic/complexity]}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
metrics: [accuracy]
"""


@pytest.fixture(autouse=True)
def made(tmp_path: Path) -> Iterator[None]:
    with made_up(tmp_path) as add:
        add("pairs", "made_up_recipe", RECIPE)
        add("pairs", "no_category", WITHOUT_CATEGORY)
        add("generators", "made_up_writer", WRITER)
        yield


def resolve(tmp_path: Path, text: str = GOOD) -> Resolved:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return resolve_file(path, tmp_path, RunWide(default="t", dtype="bfloat16"))


def make(tmp_path: Path, text: str = GOOD) -> Plan:
    return make_plan(resolve(tmp_path, text))


def change(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_list_of_categories_is_a_recipe_each(tmp_path: Path) -> None:
    (ours,) = resolve(tmp_path).pairs
    assert [r.ref.label for r in ours.recipes] == [
        "made_up_recipe@category=epistemic/knowledge",
        "made_up_recipe@category=epistemic/complexity",
    ]
    assert [r.about["definition"] for r in ours.recipes] == ["What one cannot know by looking.", "Too much to work out."]
    assert ours.sources == ("scenes",)


def test_recipes_are_stages_and_the_set_is_assembled_from_them(tmp_path: Path) -> None:
    plan = make(tmp_path)
    names = [s.name for s in plan.stages]
    pair, assemble = plan.stage("pair-ours-made_up_recipe-category-epistemic-knowledge"), plan.stage("data-ours")
    assert names.index("data-scenes") < names.index(pair.name) < names.index("data-ours") < names.index("infer-base-ours")
    assert pair.kind == "pair"
    assert pair.params == {
        "label": "made_up_recipe@category=epistemic/knowledge",
        "plugin": "made_up_recipe",
        "args": {"dataset": "scenes", "category": "epistemic/knowledge", "times": 1, "writer": None, "lexicon": None},
        "about": {"definition": "What one cannot know by looking.", "answer": "", "examples": []},
    }
    assert pair.inputs == {"datasets": {"scenes": "results/t/data/scenes"}}
    assert pair.outputs == {"pairs": "results/t/pairs/ours/made_up_recipe-category-epistemic-knowledge"}
    assert pair.seed == 7
    assert assemble.kind == "assemble"
    assert assemble.params == {
        "dataset": "ours",
        "recipes": ["made_up_recipe@category=epistemic/knowledge", "made_up_recipe@category=epistemic/complexity"],
        "near_duplicates": {"distance": 4, "drop": False},
    }
    assert assemble.inputs == {
        "recipes": {
            "made_up_recipe@category=epistemic/complexity": "results/t/pairs/ours/made_up_recipe-category-epistemic-complexity",
            "made_up_recipe@category=epistemic/knowledge": "results/t/pairs/ours/made_up_recipe-category-epistemic-knowledge",
        },
        "datasets": {"scenes": "results/t/data/scenes"},
        "cards": {"scenes": "results/t/data/scenes.md"},
    }
    places = {"dataset": "", "card": ".md", "shortcuts": ".shortcuts.parquet"}
    assert assemble.outputs == {key: f"results/t/data/ours{suffix}" for key, suffix in places.items()}
    assert plan.stage("report").inputs["shortcuts"] == {"ours": "results/t/data/ours.shortcuts.parquet"}


def test_the_source_of_pairs_is_asked_only_where_the_spec_says_so(tmp_path: Path) -> None:
    assert [d.label for d in resolve(tmp_path).evaluated] == ["ours"]
    assert [d.label for d in resolve(tmp_path, change("test: 10}", "test: 10, evaluate: true}")).evaluated] == ["ours", "scenes"]
    assert not resolve(tmp_path, change("  ours:\n", "  ours:\n    evaluate: false\n")).evaluated


def test_what_a_recipe_names_becomes_its_input(tmp_path: Path) -> None:
    more = "lexicon: words, writer: {made_up_writer: {artifact: llm}}, category"
    plan = make(tmp_path, change("scenes, category", f"scenes, {more}"))
    pair = plan.stage("pair-ours-made_up_recipe-category-epistemic-knowledge")
    assert pair.inputs["artifacts"] == {"words": "registry/data/words", "llm": "registry/data/llm"}
    assert {"registry/data/words", "registry/data/llm"} <= set(pair.deps)
    assert pair.params["args"]["writer"] == {
        "plugin": "made_up_writer",
        "args": {"artifact": "registry/data/llm", "dtype": "bfloat16"},
    }
    before = make(tmp_path)
    same = [s.name for s in plan.stages if s.name != "report" and s.as_json() == before.stage(s.name).as_json()]
    assert not [n for n in same if n.startswith("pair-")]
    assert {"data-scenes", "data-ours", "infer-base-ours", "judge", "score"} <= set(same)


def test_reviews_are_an_input_of_the_set(tmp_path: Path) -> None:
    assemble = make(tmp_path, change("  ours:\n", "  ours:\n    curated: ours-reviews\n    unreviewed: keep\n")).stage("data-ours")
    assert assemble.inputs["reviews"] == "registry/data/ours-reviews"
    assert (assemble.params["unreviewed"], assemble.params["lone"]) == ("keep", "drop")


def test_a_set_can_be_made_of_another_and_trained_on(tmp_path: Path) -> None:
    more = "  again:\n    recipes: [made_up_recipe: {dataset: ours}]\n"
    tune = "finetunes:\n  tuned: {scratch_vlm: {train: [ours], heldout: [again]}}\n"
    plan = make(tmp_path, GOOD.replace("models:", f"{more}{tune}models:"))
    assert plan.stage("pair-again-made_up_recipe").inputs == {"datasets": {"ours": "results/t/data/ours"}}
    assert plan.stage("finetune-tuned").inputs["datasets"] == {"again": "results/t/data/again", "ours": "results/t/data/ours"}
    assert draw(plan, "svg", False).count("<rect") == 8, "a graph by kind, in which sets feed pairs and pairs feed sets"
    names = [s.name for s in plan.stages]
    assert names.index("data-ours") < names.index("pair-again-made_up_recipe") < names.index("data-again")
    assert sorted(s.name for s in plan.stages if s.kind == "infer") == [
        "infer-base-again",
        "infer-base-ours",
        "infer-tuned-again",
        "infer-tuned-ours",
    ]


def test_a_recipe_can_have_a_name_of_its_own(tmp_path: Path) -> None:
    twice = (
        "      - made_up_recipe: {dataset: scenes, category: epistemic/complexity}\n        as: hard\n"
        "      - made_up_recipe: {dataset: scenes, times: [1, 2]}\n        as: easy\n"
    )
    (ours,) = resolve(tmp_path, change(GOOD[GOOD.index("      - made") : GOOD.index("models:")], twice)).pairs
    assert [r.ref.label for r in ours.recipes] == ["hard", "easy@times=1", "easy@times=2"]


def test_a_recipe_s_limit_is_of_pairs_or_of_the_questions_that_they_are(tmp_path: Path) -> None:
    for said, pairs in (
        ("{pairs: 5}", {"": 5}),
        ("{questions: 24000}", {"": 12000}),
        ("{questions: {test: 7, train: 20}}", {"test": 3, "train": 10}),
    ):
        limited = GOOD.replace("      - made_up_recipe", f"      - limit: {said}\n        made_up_recipe")
        (ours,) = resolve(tmp_path, limited).pairs
        assert [dict(r.limit) for r in ours.recipes] == [pairs] * 2
        assert make(tmp_path, limited).stage(f"pair-ours-{slug(ours.recipes[0].ref.label)}").params["limit"] == pairs
    assert "limit" not in make(tmp_path, GOOD).stage(f"pair-ours-{slug(ours.recipes[0].ref.label)}").params


def test_many_recipes_count_towards_the_limit_of_stages(tmp_path: Path) -> None:
    times = ", ".join(map(str, range(90)))
    plan = make(tmp_path, change("category: [", f"times: [{times}], category: ["))
    assert any(s.name == "infer-base" for s in plan.stages), "beyond the limit one model's answers are one stage"
    assert len([s for s in plan.stages if s.kind == "pair"]) == 180 > MAX_STAGES


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "epistemic/complexity]",
            "epistemic/complexty]",
            "t.yaml:12:75: pairs.ours.recipes[0].made_up_recipe.category[1]: expected a category of this spec's taxonomy, "
            "got 'epistemic/complexty' (did you mean 'epistemic/complexity'?)",
        ),
        (
            GOOD[GOOD.index("taxonomy:") : GOOD.index("datasets:")],
            "",
            "t.yaml:8:54: pairs.ours.recipes[0].made_up_recipe.category[0]: expected a category of this spec's taxonomy, "
            "got 'epistemic/knowledge' (declare its categories under `taxonomy:`)",
        ),
        (
            "judges: [rules]",
            "slices: [category, whatever, answerabl]\njudges: [rules]",
            "t.yaml:15:30: slices[2]: samples have no field 'answerabl' (did you mean 'answerable'?)",
        ),
        (
            ", category: [epistemic/knowledge, epistemic/complexity]",
            "",
            "t.yaml:6:5: taxonomy.epistemic.complexity: a category no pair produces: no recipe makes pairs of 'epistemic/complexity' "
            "(add a recipe with `category: epistemic/complexity` under `pairs:`, or take it out of the taxonomy)",
        ),
        (
            "dataset: scenes",
            "dataset: scnes",
            "t.yaml:12:35: pairs.ours.recipes[0].made_up_recipe.dataset: expected a dataset or pair set of this spec, got 'scnes' "
            "(did you mean 'scenes'?)",
        ),
        (
            "dataset: scenes",
            "dataset: ours",
            "t.yaml:10:3: pairs.ours: the pair set 'ours' is made from itself (name another dataset)",
        ),
        (
            "test: 10",
            "test: [5, 10]",
            "t.yaml:10:3: pairs.ours: recipes read one dataset, and 'scenes' is a sweep of 2: scenes@test=10, scenes@test=5 "
            "(give each of them a name of its own under `datasets:`)",
        ),
        (
            "      - made_up_recipe",
            "      - made_up_recipe: {dataset: scenes}\n      - made_up_recipe: {dataset: scenes, times: 2}\n      - made_up_recipe",
            "t.yaml:13:9: pairs.ours.recipes[1]: 'made_up_recipe' is named twice "
            "(give one of them a name of its own: `as: ...` beside the plugin)",
        ),
        (
            "      - made_up_recipe",
            "      - {made_up_recipe: {dataset: scenes}, as: a/b}\n      - made_up_recipe",
            "t.yaml:12:49: pairs.ours.recipes[0].as: expected a name of A-Z, a-z, 0-9, '_', '-' and '.', "
            "beginning with a letter or digit, at most 64, got the text 'a/b'",
        ),
        (
            "      - made_up_recipe",
            "      - {made_up_recipe: {dataset: scenes}, limit: 5}\n      - made_up_recipe",
            "t.yaml:12:52: pairs.ours.recipes[0].limit: expected a number of questions or pairs, in all or by split: {pairs: 100}, "
            "{pairs: {test: 100}}, got 5",
        ),
        (
            "      - made_up_recipe",
            "      - {made_up_recipe: {dataset: scenes}, limit: {questions: {test: 1}}}\n      - made_up_recipe",
            "t.yaml:12:52: pairs.ours.recipes[0].limit: expected at least 2 questions, which are one pair, got ",
        ),
        (
            "      - made_up_recipe",
            "      - no_category: {dataset: scenes}\n      - made_up_recipe",
            "t.yaml:12:22: pairs.ours.recipes[0].no_category: no_category has no parameter 'category', by which a recipe says "
            "what it makes; add one to ",
        ),
        ("made_up_recipe", "made_up_recpe", "t.yaml:12:9: pairs.ours.recipes[0].made_up_recpe: no pairs plugin named 'made_up_recpe'"),
        (
            "  ours:\n",
            "  ours:\n    unreviewed: maybe\n",
            "t.yaml:11:17: pairs.ours.unreviewed: expected one of drop or keep, got the text 'maybe'",
        ),
        ("  ours:\n", "  ours:\n    splits: []\n", "t.yaml:11:13: pairs.ours.splits: "),
        ("  ours:", "  scenes:", "t.yaml:10:3: pairs.scenes: the name 'scenes' is given to two of datasets, pairs, models and finetunes"),
        (
            GOOD[GOOD.index("      - made") : GOOD.index("models:")],
            "      []\n",
            "t.yaml:12:7: pairs.ours.recipes: expected at least one recipe, got an empty list",
        ),
    ],
)  # fmt: skip
def test_each_mistake_says_where_what_and_what_to_do(tmp_path: Path, old: str, new: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(tmp_path, change(old, new))
    found = [str(p) for p in caught.value.problems]
    assert any(f.startswith(expected) for f in found), "\n".join(found)


def test_a_longer_circle_of_sets_is_met(tmp_path: Path) -> None:
    sets = "  a:\n    recipes: [made_up_recipe: {dataset: b}]\n  b:\n    recipes: [made_up_recipe: {dataset: a}]\n"
    lacking = GOOD.replace(", epistemic/complexity]", "]")
    with pytest.raises(SpecError) as caught:
        resolve(tmp_path, lacking.replace("models:", f"{sets}models:"))
    assert [str(p) for p in caught.value.problems] == [  # and not that a category lacks pairs: what is mended may make them
        "t.yaml:13:3: pairs.a: the pair set 'a' is made from itself (name another dataset)",
        "t.yaml:15:3: pairs.b: the pair set 'b' is made from itself (name another dataset)",
    ]


def test_a_taxonomy_without_pairs_is_a_description_of_the_data(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index("pairs:")] + GOOD[GOOD.index("models:") :]
    assert resolve(tmp_path, text).pairs == ()


def test_splits_of_the_spec_reach_every_stage_that_asks_or_scores(tmp_path: Path) -> None:
    text = change("  ours:\n", "  ours:\n    splits: [val, test]\n").replace("test: 10}", "test: 10, evaluate: true}")
    plan = make(tmp_path, text)
    assert {s.name: s.params["splits"] for s in plan.stages if "splits" in s.params} == {
        "infer-base-ours": {"ours": ["test", "val"]},
        "score": {"ours": ["test", "val"]},
        "report": {"ours": ["test", "val"]},
    }
    assert not any("splits" in s.params for s in make(tmp_path).stages), "where the spec is silent the runners' rule holds"
