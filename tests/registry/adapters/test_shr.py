import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.shr import shr
from qualm.registry.sample import Image, Sample
from tests.support.projects.scored import asking, scored
from tests.support.projects.stages import ref
from tests.support.servers.asked_judge import prompt_of
from tests.support.servers.small_server import serving


def region(image_id, **changes):
    return {"region_id": 1, "width": 40, "height": 50, "image_id": image_id, "phrase": "a brown dog ", "y": 20, "x": 10} | changes


def folder(root, **changes):
    files = {
        "val_images_final.json": [{"image_id": 7, "url": "x"}, {"image_id": 5}],
        "shr_factual_part1.jsonl": [{"7": ["There is a dog.", "It is day."]}],
        "shr_factual_part2.jsonl": [{"9": ["Not asked about."]}],
        "image_data.json": [
            {
                "image_id": n,
                "url": f"https://cs.stanford.edu/people/rak248/VG_100K{'_2' if n == 5 else ''}/{n}.jpg",
                "width": 800,
                "height": 500,
            }
            for n in (5, 7, 8)
        ],
        "region_descriptions.json": [
            {"regions": [region(n), region(n, x=0, phrase="grass"), region(n, phrase=" ")], "id": n} for n in (8, 7, 5)
        ]
        + [{"regions": [], "id": 9}],
    } | changes
    for name, records in files.items():
        text = "\n".join(json.dumps(r) for r in records) if name.endswith("l") else json.dumps(records)
        (root / name).write_text(text)
    for place in ("VG_100K/7.jpg", "VG_100K_2/5.jpg"):
        (root / place).parent.mkdir(exist_ok=True)
        (root / place).write_bytes(place.encode())
    return root


def read(source):
    return list(shr(AdapterContext(source, source=source)))


def test_facts_and_regions(tmp_path):
    image, first, other, second = read(folder(tmp_path))
    assert image == Image("7", b"VG_100K/7.jpg", "VG_100K/7.jpg") and other.path == "VG_100K_2/5.jpg"
    assert first == Sample(
        "7",
        "Describe this image in detail.",
        "7",
        references=("There is a dog.", "It is day."),
        source="shr",
        group="7",
        meta={"evidence": "[0.01, 0.04, 0.06, 0.14]: a brown dog\n[0.0, 0.04, 0.05, 0.14]: grass", "facts": "2"},
    )
    assert (second.references, second.meta["facts"]) == (("a brown dog", "grass"), "0"), "without facts, what its regions are called"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"val_images_final.json": [{"id": 7}]}, "val_images_final.json: line 1, record 0: missing image_id; it has: id"),
        ({"val_images_final.json": [{"image_id": 8}]}, "expected its image at VG_100K/8.jpg"),
        ({"val_images_final.json": [{"image_id": 9}]}, "image_id 9: image_data.json does not know this image"),
        ({"region_descriptions.json": []}, "region_descriptions.json"),
        ({"region_descriptions.json": [{"regions": []}]}, "image_id 5: neither facts nor regions are known of this image"),
        (
            {"shr_factual_part1.jsonl": [{"7": [], "8": []}]},
            "part1.jsonl: line 1, record 0: expected an object of one image and its facts",
        ),
        ({"shr_factual_part1.jsonl": [{"7": "a dog"}]}, "7: expected a list of facts, got 'a dog'"),
        ({"shr_factual_part1.jsonl": [{"7": ["a dog", 3]}]}, r"7: expected a list of facts, got \['a dog', 3\]"),
        ({"shr_factual_part1.jsonl": [["7"]]}, "expected an object of one image and its facts, got '7'"),
        ({"shr_factual_part1.jsonl": [{"x": []}]}, "image_id: expected a whole number, got 'x'"),
        *(
            ({"image_data.json": [{"image_id": 7, "url": "a/7.jpg", "width": width, "height": height}]}, "expected whole numbers above 0")
            for width, height in ((0, 5), (5, 0), (5, -1), (5.0, 5), (5, "5"))
        ),
        ({"region_descriptions.json": [{"regions": [region(7), region(7, x=1.5)]}]}, r"regions\[1\]: x, y, width, height: expected whole"),
        ({"region_descriptions.json": [{"regions": None}]}, "regions: expected a list, got None"),
    ],
)
def test_what_is_unknown_is_reported(tmp_path, changes, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, **changes))


def test_the_ratio_is_of_all_sentences_together(tmp_path, monkeypatch):
    samples = [s for s in read(folder(tmp_path)) if isinstance(s, Sample)]
    monkeypatch.chdir(tmp_path)

    def judge(body, nth):
        lines = prompt_of(body).split("Sentences:\n")[1].splitlines()
        return "\n".join(f"{i}. {'hallucination' if 'cat' in line else 'correct'}: so" for i, line in enumerate(lines, 1))

    with serving(judge) as server:
        texts = {"7": "A dog. A cat. A cat in a tree. Day.", "5": "Grass."}
        found = scored(samples, texts, [asking(server, "shr")], [ref("hallucinated_sentence_ratio", judge="shr")])
        assert "[0.01, 0.04, 0.06, 0.14]: a brown dog" in prompt_of(server.bodies[0])
    assert found["all", "hallucinated_sentence_ratio"]["value"] == pytest.approx(2 / 5)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root), {}
