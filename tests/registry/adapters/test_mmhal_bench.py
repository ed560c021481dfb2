import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.mmhal_bench import TYPES, mmhal_bench
from qualm.registry.sample import Image, Sample
from tests.support.projects.scored import asking, scored
from tests.support.projects.stages import ref
from tests.support.servers.small_server import serving


def record(place, **changes):
    made = {"question_type": f"type {place % 8}", "question_topic": "food", "image_id": f"{place:016x}", "image_content": ["Tree", "Dog"]}
    made |= {"image_src": f"https://example.org/a/{place:x}_o.jpg", "question": f"What is {place}?", "gt_answer": f"It is {place}."}
    return made | {"model_answer": ""} | changes


def folder(root, records, by="image_src"):
    (root / "images").mkdir(exist_ok=True)
    (root / "response_template.json").write_text(json.dumps(records))
    for one in records:
        name = one["image_src"].rsplit("/", 1)[-1] if by == "image_src" else f"{one['image_id']}.jpg"
        (root / "images" / name).write_bytes(b"p")
    return root


def read(source):
    return list(mmhal_bench(AdapterContext(source, source=source)))


def test_the_records_by_their_place(tmp_path):
    made = read(folder(tmp_path, [record(i) for i in range(96)]))
    samples = [s for s in made if isinstance(s, Sample)]
    assert made[0] == Image("0_o.jpg", b"p", "images/0_o.jpg")
    assert samples[9] == Sample(
        "mmhal_09",
        "What is 9?",
        "9_o.jpg",
        references=("It is 9.",),
        category="adversarial",
        source="mmhal_bench",
        group="9_o.jpg",
        meta={"evidence": "Tree, Dog", "type": "type 1", "topic": "food"},
    )
    assert [s.category for s in samples[:8]] == list(TYPES) and len(samples) == 96


def test_pictures_by_their_id_and_records_without_names_of_types(tmp_path):
    records = [record(i) for i in range(96)]
    assert read(folder(tmp_path, records, "image_id"))[0].path == f"images/{0:016x}.jpg"
    for one in records:
        del one["question_type"], one["model_answer"]
    assert "type" not in read(folder(tmp_path, records))[1].meta


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.pop(), "expected 96 records in the official order, got 95"),
        (
            lambda r: r.insert(5, r.pop(6)),
            r"record 13: question_type: expected 'type 6' as in record 5, got 'type 5': the records are not in",
        ),
        (lambda r: r[3].update(image_content="Dog"), "record 3: image_content: expected a list of words, got 'Dog'"),
        (lambda r: r[3].update(image_content=["Dog", 1]), "record 3: image_content: expected a list of words"),
        (lambda r: r[3].update(surprise=1), "record 3: unknown keys surprise"),
        (lambda r: r[3].pop("gt_answer"), "record 3: missing gt_answer"),
    ],
)
def test_what_is_unknown_is_reported(tmp_path, change, says):
    records = [record(i) for i in range(96)]
    change(records)
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, records))


@pytest.mark.slow
def test_scored_by_type(tmp_path, monkeypatch):
    samples = [s for s in read(folder(tmp_path, [record(i) for i in range(96)])) if isinstance(s, Sample)]
    monkeypatch.chdir(tmp_path)
    with serving(
        lambda body, nth: "rating: 6" if "right" in body["messages"][0]["content"].rsplit("answer: ", 1)[1] else "Rating: 1"
    ) as server:
        texts = {s.sample_id: "right" if s.category == "counting" else "wrong" for s in samples}
        metrics = [ref("mmhal_score", judge="mmhal"), ref("mmhal_hallucination_rate", judge="mmhal")]
        found = scored(samples, texts, [asking(server, "mmhal")], metrics, slices=["category"])
    assert found["all", "mmhal_score"]["value"] == pytest.approx((6 + 7 * 1) / 8)
    assert found["all", "mmhal_hallucination_rate"]["value"] == pytest.approx(7 / 8)
    assert (found["category=counting", "mmhal_score"]["value"], found["category=counting", "mmhal_score"]["n"]) == (6, 12)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [record(i) for i in range(96)]), {}
