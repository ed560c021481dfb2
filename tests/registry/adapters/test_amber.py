import json
from pathlib import Path

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.amber import META, amber
from qualm.registry.entries.card import load_card
from qualm.registry.sample import Image, Sample
from qualm.registry.where import parse
from qualm.runners.data.selection import StageSelection
from tests.support.checks.yes_no_answers import amber_by_hand
from tests.support.projects.scored import scored
from tests.support.projects.stages import ref

FIXTURES = Path(__file__).resolve().parents[3] / ".." / "shared" / "fixtures" / "amber"
METRICS = ("yes_no_accuracy", "yes_no_precision", "yes_no_recall", "yes_no_f1")


def query(number, text="Is the sky sunny in this image?", image=1):
    return {"id": number, "image": f"AMBER_{image}.jpg", "query": text}


def known(number, kind="discriminative-attribute-state", truth="yes", **others):
    return {"id": number, "type": kind, "truth": truth, **others}


def folder(root, queries, annotations):
    (root / "data" / "query").mkdir(parents=True, exist_ok=True)
    (root / "image").mkdir(exist_ok=True)
    (root / "data/query/query_all.json").write_text(json.dumps(queries))
    (root / "data/annotations.json").write_text(json.dumps(annotations))
    for one in queries:
        (root / "image" / one["image"]).write_bytes(b"p")
    return root


def read(source, **arguments):
    return list(amber(AdapterContext(source, source=source), **arguments))


@pytest.fixture
def both(tmp_path):
    described = known(1, "generative", ["sky", "road"], hallu=["cloud"])
    return folder(
        tmp_path,
        [query(1, "Describe this image."), query(1005), query(15220, image=2)],
        [described, known(15220, "relation", "no"), known(1005)],
    )


def test_questions_are_joined_by_id(both):
    image, one, _, two = read(both, instruction="Please answer with Yes or No.")
    assert image == Image("AMBER_1.jpg", b"p", "image/AMBER_1.jpg")
    assert one == Sample(
        "1005",
        "Is the sky sunny in this image? Please answer with Yes or No.",
        "AMBER_1.jpg",
        references=("yes",),
        category="attribute/state",
        source="amber",
        group="AMBER_1.jpg",
        meta={"type": "discriminative-attribute-state"},
    )
    assert (two.sample_id, two.category, two.references, two.meta["type"]) == ("15220", "relation", ("no",), "relation")


def test_descriptions_are_read(both):
    _, one = read(both, task="generative", instruction="Please answer with Yes or No.")
    assert (one.question, one.references, one.category) == ("Describe this image.", (), "generative")
    assert dict(one.meta) == {"type": "generative", "truth": "sky, road", "hallu": "cloud"}
    assert [s.sample_id for s in read(both, task="all") if isinstance(s, Sample)] == ["1", "1005", "15220"]


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (known(7), "query_all.json: line 1, record 0: id 1005: data/annotations.json has no annotation of this id"),
        (
            known(1005, "discriminative-colour"),
            "type: expected one of generative, discriminative-hallucination, .*, relation, got 'discriminative-colour'",
        ),
        (known(1005, truth="maybe"), "truth: expected yes or no, got 'maybe'"),
        (known(1005, "generative", ["sky"]), "missing hallu; it has: id, type, truth"),
        (known(1005, "generative", "sky", hallu=[]), "truth: expected a list of words, got 'sky'"),
        (known(1005, "generative", ["sky"], hallu=["dog", 1]), r"hallu: expected a list of words, got \['dog', 1\]"),
        (known(1005) | {"more": 1}, "unknown keys more; expected id, type, truth, hallu"),
    ],
)
def test_what_is_unknown_is_reported(tmp_path, annotation, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [query(1005)], [annotation]))
    with pytest.raises(AdapterError, match=r"annotations\.json: line 1, record 1: id 1005 comes twice"):
        read(folder(tmp_path, [query(1005)], [known(1005)] * 2))


def test_a_bad_annotation_can_be_left_out(tmp_path):
    faults = []
    source = folder(tmp_path, [query(1005), query(1006)], [known(1005, truth="maybe"), known(1006)])
    made = list(amber(AdapterContext(source, source=source, bad=faults.append)))
    assert [s.sample_id for s in made if isinstance(s, Sample)] == ["1006"]
    assert len(faults) == 2, "the annotation, and the query that then has none"


def test_the_released_records(tmp_path, monkeypatch):
    """Scored as the official script prints it, for each of its parts."""
    if not FIXTURES.is_dir():
        pytest.skip("no ../shared/fixtures/amber here")
    queries, annotations = (json.loads((FIXTURES / f"{name}.subset50.json").read_text()) for name in ("query_all", "annotations"))
    samples = [s for s in read(folder(tmp_path, queries, annotations), task="all") if isinstance(s, Sample)]
    assert len(samples) == 50 and {s.category for s in samples} == {
        "generative", "existence", "attribute/state", "attribute/number", "attribute/action", "relation",
    }  # fmt: skip
    subsets = load_card("amber").subsets
    for name in subsets:
        selection = StageSelection("d", {"where": str(parse(name, META, subsets))})
        assert [s for s in samples if selection.selects(s)] == [s for s in samples if s.category.split("/")[0] == name]
    asked = [s for s in samples if s.references]
    cycle = ["No", "Yes", "No", "no", "Yes", "No", "No"]
    texts = {s.sample_id: cycle[i % len(cycle)] for i, s in enumerate(asked)}
    monkeypatch.chdir(tmp_path)
    found = {}
    for convention in ("amber", "amber_existence"):
        metrics = [ref("yes_no_f1", judge="amber", positive="no", convention=convention)]
        if convention == "amber":
            metrics += [ref(m, judge="amber", positive="no", convention="amber") for m in METRICS[1:3]]
            metrics += [ref("yes_no_accuracy", judge="amber", convention="amber")]
        found[convention] = scored(asked, texts, [ref("amber", match="exact")], metrics, slices=["category"])
    for part in ("all", "category=existence", "category=attribute", "category=attribute/number", "category=relation"):
        rows = [s for s in asked if part == "all" or s.category.startswith(part.removeprefix("category="))]
        answers, truth = [texts[s.sample_id] for s in rows], [s.references[0] for s in rows]
        convention, small = ("amber_existence", 0.001) if part.endswith("existence") else ("amber", 0.0001)
        expected = amber_by_hand(answers, truth, small)
        got = [found["amber"][part, m]["value"] for m in METRICS[:3]] + [found[convention][part, "yes_no_f1"]["value"]]
        assert got == pytest.approx([e / 100 for e in expected], abs=1e-9), part


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [query(1), query(2)], [known(1, "generative", ["sky"], hallu=["cloud"]), known(2)]), {"task": "all"}
