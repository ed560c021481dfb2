import json
from collections import defaultdict
from pathlib import Path

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.hallusionbench import META, hallusionbench
from qualm.registry.entries.card import load_card
from qualm.registry.sample import Image, Sample
from qualm.registry.where import parse
from qualm.runners.data.selection import StageSelection
from tests.support.projects.scored import asking, scored
from tests.support.projects.stages import ref
from tests.support.servers.asked_judge import prompt_of
from tests.support.servers.small_server import serving

FIXTURES = Path(__file__).resolve().parents[3] / ".." / "shared" / "fixtures" / "hallusionbench"


def record(**changes):
    made = {"category": "VD", "subcategory": "illusion", "visual_input": "2", "set_id": "0", "figure_id": "1", "sample_note": "circle"}
    made |= {"question_id": "0", "question": "Is it the same size?", "gt_answer_details": "It is larger.", "gt_answer": "0"}
    return made | {"filename": "./VD/illusion/0_1.png"} | changes


TEXT_ONLY = {"category": "VS", "subcategory": "chart", "visual_input": "0", "figure_id": "0", "filename": None, "gt_answer": "1"}


def folder(root, records):
    (root / "HallusionBench.json").write_text(json.dumps(records))
    for one in records:
        if one.get("filename") and ".." not in one["filename"]:
            path = root / "hallusion_bench" / one["filename"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"p")
    return root


def read(source, **arguments):
    return list(hallusionbench(AdapterContext(source, source=source), **arguments))


def test_an_edited_figure(tmp_path):
    image, sample = read(folder(tmp_path, [record()]))
    assert image == Image("VD/illusion/0_1.png", b"p", "hallusion_bench/VD/illusion/0_1.png")
    assert sample == Sample(
        "VD_illusion_0_1_0",
        "Is it the same size?",
        "VD/illusion/0_1.png",
        references=("no", "It is larger."),
        category="VD/illusion",
        source="hallusionbench",
        group="VD_illusion_0",
        meta={"visual_input": "2", "difficulty": "hard", "pair": "VD_illusion_0_0", "figure": "VD_illusion_0_1", "note": "circle"},
    )


def test_a_question_without_the_figure_it_needs(tmp_path):
    (sample,) = read(folder(tmp_path, [record(**TEXT_ONLY, sample_note="")]), instruction="Yes or no?")
    assert (sample.image_id, sample.references) == (None, ("yes", "It is larger.", "unclear"))
    assert dict(sample.meta) == {"visual_input": "0", "difficulty": "easy", "pair": "VS_chart_0_0"}, "no figure, so no part of fAcc"
    assert sample.question == "Is it the same size? Yes or no?"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gt_answer": 1}, "record 0: gt_answer: expected one of 1, 0 as text, got 1"),
        ({"visual_input": "3"}, "visual_input: expected one of 0, 1, 2 as text, got '3'"),
        ({"category": "VX"}, "category: expected one of VD, VS as text, got 'VX'"),
        ({"filename": None}, "filename: expected one where visual_input is not 0, and only there, got None with 2"),
        ({"visual_input": "0"}, "filename: expected one where visual_input is not 0, and only there, got './VD"),
        ({"model": "x"}, "unknown keys model"),
        ({"filename": "../x.png"}, r"expected its image at hallusion_bench/\.\./x\.png or \.\./x\.png within"),
    ],
)
def test_what_is_unknown_is_reported(tmp_path, changes, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [record(**changes)]))


def official(records, codes):
    """aAcc, fAcc, qAcc, easy and hard aAcc, by the official functions' own loops."""
    figures, pairs = defaultdict(list), defaultdict(list)
    right = []
    for r, code in zip(records, codes, strict=True):
        no_figure = r["category"] == "VS" and r["figure_id"] == "0"
        right.append(int(code == 1 or (code == 2 and no_figure)))
        same = (r["category"], r["subcategory"], r["set_id"])
        pairs[*same, r["question_id"]].append(right[-1])
        if not no_figure:
            figures[*same, r["figure_id"]].append(right[-1])
    shares = [sum(right) / len(right)] + [sum(all(v) for v in of.values()) / len(of) for of in (figures, pairs)]
    hard = [r["visual_input"] == "2" for r in records]
    for side in (False, True):
        of = [x for x, h in zip(right, hard, strict=True) if h == side]
        shares.append(sum(of) / len(of))
    return shares


def test_the_released_records(tmp_path, monkeypatch):
    if not FIXTURES.is_dir():
        pytest.skip("no ../shared/fixtures/hallusionbench here")
    records = json.loads((FIXTURES / "HallusionBench.subset.json").read_text())
    samples = [s for s in read(folder(tmp_path, records)) if isinstance(s, Sample)]
    assert len(samples) == len(records) == 56
    assert sum(s.image_id is None for s in samples) == 16
    subsets = load_card("hallusionbench").subsets
    taken = {name: StageSelection("d", {"where": str(parse(name, META, subsets))}) for name in subsets}
    assert {name: sum(one.selects(s) for s in samples) for name, one in taken.items()} == {"easy": 42, "hard": 14, "text_only": 16}
    codes = [(1, 1, 1, 2, 1, 0, 1)[i % 7] for i in range(56)]
    words = {0: "incorrect", 1: "correct", 2: "unclear"}
    texts = {s.sample_id: f"answer {words[code]} {i}" for i, (s, code) in enumerate(zip(samples, codes, strict=True))}
    monkeypatch.chdir(tmp_path)
    metrics = [
        ref("accuracy"),
        ref("group_accuracy", "fAcc", by="figure", of="correct"),
        ref("group_accuracy", "qAcc", by="pair", of="correct"),
    ]
    with serving(lambda body, nth: prompt_of(body).rsplit("Student: answer ", 1)[1].split()[0]) as server:
        found = scored(samples, texts, [asking(server, "hallusionbench")], metrics, slices=["difficulty"])
    labels = [("all", "accuracy"), ("all", "fAcc"), ("all", "qAcc"), ("difficulty=easy", "accuracy"), ("difficulty=hard", "accuracy")]
    assert [found[label]["value"] for label in labels] == pytest.approx(official(records, codes))
    assert (found["all", "fAcc"]["n"], found["all", "qAcc"]["n"]) == (40, 56)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [record(), record(**TEXT_ONLY)]), {}
