import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.coco_folder import coco_folder
from qualm.registry.sample import Image, Sample

ANNOTATIONS = {
    "info": {"year": 2014},
    "images": [{"id": 9, "file_name": "a.jpg", "width": 4}, {"id": 7, "file_name": "sub/b.jpg"}],
    "annotations": [
        {"id": 1, "image_id": 9, "caption": "A cat.", "question": "What?", "answer": "cat", "category_id": 3, "bbox": [1, 2, 3, 4]},
        {"id": 2, "image_id": 7, "caption": "A dog.", "question": "Who?", "answer": "dog", "category_id": 5},
        {"id": 3, "image_id": 9, "caption": "One cat.", "question": "How many?", "answer": 1, "category_id": 3},
    ],
    "categories": [{"id": 3, "name": "cat"}, {"id": 5, "name": "dog"}],
}


@pytest.fixture
def source(tmp_path):
    (tmp_path / "annotations").mkdir()
    (tmp_path / "val/sub").mkdir(parents=True)
    for name in ("a.jpg", "sub/b.jpg"):
        (tmp_path / "val" / name).write_bytes(name.encode())
    (tmp_path / "annotations/val.json").write_text(json.dumps(ANNOTATIONS))
    return tmp_path


def read(source, context=None, **arguments):
    given = {"files": {"val": "annotations/val.json"}, "images": "{split}", **arguments}
    return list(coco_folder(context or AdapterContext(source, source=source), **given))


def test_questions(source):
    made = read(source, question="question", answer="answer", category="category_id", meta=["bbox"])
    assert [type(item).__name__[0] for item in made] == list("ISISS")
    first, _, third = (item for item in made if isinstance(item, Sample))
    assert (first.sample_id, first.image_id, first.question, first.references) == ("1", "a.jpg", "What?", ("cat",))
    assert first.category == "cat" and first.meta == {"bbox": "[1, 2, 3, 4]"} and first.split == "val"
    assert third.references == ("1",) and third.group == "a.jpg"


def test_captions_of_a_picture_are_its_references(source):
    made = [s for s in read(source, per="image", instruction="Describe the picture.", answer="caption") if isinstance(s, Sample)]
    assert [(s.sample_id, s.question, s.references) for s in made] == [
        ("a.jpg", "Describe the picture.", ("A cat.", "One cat.")),
        ("sub/b.jpg", "Describe the picture.", ("A dog.",)),
    ]
    with pytest.raises(AdapterError, match="`per: image` asks the one `instruction`"):
        read(source, per="image", question="question")


def test_a_name_comes_again_in_the_folder_of_another_split(source):
    (source / "train").mkdir()
    (source / "train/a.jpg").write_bytes(b"another")
    only = {"images": ANNOTATIONS["images"][:1], "annotations": ANNOTATIONS["annotations"][:1], "categories": ANNOTATIONS["categories"]}
    (source / "annotations/train.json").write_text(json.dumps(only))
    files = {"train": "annotations/train.json", "val": "annotations/val.json"}
    for per, ids in (("annotation", ["train_1", "val_1", "val_2", "val_3"]), ("image", ["train_a.jpg", "val_a.jpg", "val_sub/b.jpg"])):
        made = read(source, files=files, per=per, instruction="Describe the picture.", answer="caption")
        assert [i.data for i in made if isinstance(i, Image)] == [b"another", b"a.jpg", b"sub/b.jpg"]
        samples = [s for s in made if isinstance(s, Sample)]
        assert [s.sample_id for s in samples] == ids and [s.image_id for s in samples][:2] == ["train_a.jpg", "val_a.jpg"]


@pytest.mark.parametrize(
    ("categories", "category"),
    [
        (None, "3"),
        ([], "3"),
        ([{"id": 3}, {"name": "cat"}, "cat"], "3"),
        ([{"id": "3", "name": 7}], "7"),
        ([{"id": 3, "name": "cat"}], "cat"),
    ],
)
def test_categories_by_name_where_the_file_names_them(source, categories, category):
    files = {"images": ANNOTATIONS["images"], "annotations": [{**ANNOTATIONS["annotations"][0], "category_id": 3}]}
    (source / "annotations/val.json").write_text(json.dumps(files | ({} if categories is None else {"categories": categories})))
    (sample,) = (s for s in read(source, question="question", category="category_id") if isinstance(s, Sample))
    assert sample.category == category


def test_options_and_pictures_do_not_go_together(source):
    for odd in ({"choices": ["a"]}, {"question": "question"}, {"choices": ["a"], "question": "question"}):
        with pytest.raises(AdapterError, match="leave these out, or say `per: annotation`"):
            read(source, per="image", **odd)


@pytest.mark.parametrize(
    ("where", "change", "said"),
    [
        (("annotations", 1), {"image_id": 8}, "record 1: image_id: no image 8 under 'images'"),
        (("annotations", 0), {"category_id": 4}, "category_id: no category 4 under 'categories'"),
        (("images", 1), {"id": 9}, "record 1: the image id 9 comes twice"),
        (("images", 0), {"file_name": "../../etc/passwd"}, "expected its image at"),
        (("images", 0), {"file_name": None}, "file_name: expected text, got None"),
    ],
)
def test_damage(source, where, change, said):
    broken = json.loads(json.dumps(ANNOTATIONS))
    broken[where[0]][where[1]] |= change
    (source / "annotations/val.json").write_text(json.dumps(broken))
    with pytest.raises(AdapterError, match=f"{said}"):
        read(source, question="question", answer="answer")


def test_files_that_are_none(source):
    (source / "annotations/val.json").write_text(json.dumps({"images": ANNOTATIONS["images"]}))
    with pytest.raises(AdapterError, match="expected a list under 'annotations', found the keys 'images'"):
        read(source, question="question")
    (source / "annotations/val.json").write_text(json.dumps(ANNOTATIONS)[:-30])
    with pytest.raises(AdapterError, match=r"val\.json: line 1: expected"):
        read(source, question="question")


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    (root / "a.jpg").write_bytes(b"p")
    annotations = [{"id": 1, "image_id": 9, "q": "What?", "answer": "cat", "category_id": 3}]
    files = {"images": [{"id": 9, "file_name": "a.jpg"}], "annotations": annotations, "categories": [{"id": 3, "name": "cat"}]}
    (root / "a.json").write_text(json.dumps(files))
    return root, {"files": {"test": "*.json"}, "images": ".", "question": "q", "answer": "answer", "category": "category_id"}
