"""Old VizWiz names matched to today's files: by question and answers, by image, or not at all, and never by number."""

import io
import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._vizwiz_images import ASIDE, NAMES
from qualm.registry.adapters.vizwiz_ans_difference import derived_files, vizwiz_ans_difference
from qualm.registry.entries.adding import add
from qualm.registry.entries.card import load_card
from qualm.registry.sample import Image, Sample

SOUP = ["soup", "can soup", "tomato soup", "unsuitable", "soup", "campbells", "soup", "unanswerable", "soup", "can"]
BLUE = ["blue"] * 9 + ["navy"]


def photo(seed: int, side: int = 160, quality: int = 90) -> bytes:
    levels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
    stream = io.BytesIO()
    PIL.Image.fromarray(levels).resize((side, side), PIL.Image.Resampling.BICUBIC).save(stream, "JPEG", quality=quality)
    return stream.getvalue()


def old(number: int) -> str:
    return f"VizWiz_train_{number:012d}.jpg"


def derived(folder: Path) -> tuple[dict[str, str], list[str]]:
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return derived_files(folder, files, lambda name: None)


class Folder:
    """Files in both layouts: annotations of the first release, annotations and images of today's."""

    def __init__(self, root: Path, annotations: str = "Annotations/vizwiz_ans_difference_val.json") -> None:
        self.root, self.annotations = root, annotations
        self.old: list[dict[str, object]] = []
        self.today: dict[str, list[dict[str, object]]] = {}

    def ask(self, number: int, question: str, answers: list[str], kept: bytes | None = None) -> None:
        shared = {"qid": old(number), "ans_type": "other", "src_dataset": "VIZWIZ", "ans_dis_labels": [0] * 10}
        self.old.append({**shared, "image": old(number), "question": question, "answers": answers})
        if kept is not None:
            self._write(f"images/{old(number)}", kept)

    def release(self, split: str, number: int, question: str, answers: list[str] | None, seed: int = 0) -> str:
        name = f"VizWiz_{split}_{number:08d}.jpg"
        record: dict[str, object] = {"image": name, "question": question}
        if answers is not None:
            record |= {"answers": [{"answer": a, "answer_confidence": "yes"} for a in answers], "answer_type": "other", "answerable": 1}
        self.today.setdefault(split, []).append(record)
        self._write(f"{split}/{name}", photo(seed))
        return f"{split}/{name}"

    def _write(self, place: str, data: bytes) -> None:
        (self.root / place).parent.mkdir(parents=True, exist_ok=True)
        (self.root / place).write_bytes(data)

    def written(self) -> Path:
        self._write(self.annotations, json.dumps(self.old).encode())
        for split, records in self.today.items():
            self._write(f"Annotations/{split}.json", json.dumps(records).encode())
        return self.root

    def match(self) -> tuple[dict[str, str], dict[str, str], list[str]]:
        files, lines = derived(self.written())
        return json.loads(files[NAMES]), json.loads(files[ASIDE]), lines


@pytest.mark.parametrize("layout", ["Annotations/vizwiz_ans_difference_val.json", "vizwiz/data/vizwiz_trainval.json"])
def test_question_and_ten_answers_identify_an_image_whatever_its_number(tmp_path: Path, layout: str) -> None:
    folder = Folder(tmp_path, layout)
    folder.ask(1, "What is this?", SOUP)
    folder.ask(2, "What is this? ", ["levi\xe4\xf3\xbbs tag", *SOUP[1:]])
    folder.ask(3, "What color?", BLUE)
    folder.release("train", 1, "What color?", BLUE)
    second = folder.release("val", 2, "what is this", ["Levi\u2019s tag", *SOUP[1:3], "unanswerable", *SOUP[4:]])
    first = folder.release("train", 3, "What is this?", SOUP)
    names, aside, lines = folder.match()
    assert names == {old(1): first, old(2): second, old(3): "train/VizWiz_train_00000001.jpg"} and not aside
    assert lines[0].startswith("images of 3 questions: 3 matched by question and answers, 0 by image hash")


@pytest.mark.parametrize(
    ("here", "there", "kind"),
    [
        ([SOUP, SOUP], [SOUP], "ambiguous: several"),
        ([SOUP], [SOUP, SOUP], "ambiguous: several"),
        (
            [["unsuitable"] * 9 + ["unanswerable"]],
            [["unanswerable"] * 10],
            "ambiguous: its question is empty, or its ten answers are equal",
        ),
        ([SOUP], [SOUP[::-1]], "unmatched: no record"),
        ([SOUP], [BLUE], "unmatched: no record"),
    ],
)
def test_no_doubtful_image_is_matched(tmp_path: Path, here: list[list[str]], there: list[list[str]], kind: str) -> None:
    folder = Folder(tmp_path)
    for number, answers in enumerate(here):
        folder.ask(number, "What is this?", answers)
    for number, answers in enumerate(there):
        folder.release("train", number, "What is this?", answers)
    names, aside, lines = folder.match()
    assert not names and len(aside) == len(here) and all(reason.startswith(kind) for reason in aside.values())
    assert f"{len(here)} {kind.partition(':')[0]}" in lines[0]


def test_an_image_that_is_not_there_is_no_match(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.ask(1, "What is this?", SOUP)
    (tmp_path / folder.release("train", 1, "What is this?", SOUP)).unlink()
    assert folder.match()[1] == {old(1): "unmatched: its image of today's release is not among the files"}


def test_old_images_are_matched_by_hash_or_stand_for_themselves(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.ask(1, "What is this?", SOUP)  # ambiguous by text, one of the two by image
    folder.ask(2, "What is this?", SOUP, kept=photo(12, side=90, quality=60))
    folder.ask(3, "Read this", SOUP, kept=photo(13, side=90, quality=60))  # no answers in today's test split
    folder.ask(4, "Which pill?", BLUE, kept=photo(14))  # not in today's release
    folder.ask(5, "Which box?", BLUE, kept=photo(15))  # twice in today's release
    folder.ask(6, "Which cat?", BLUE, kept=b"no image")
    folder.release("train", 1, "What is this?", SOUP, seed=11)
    second = folder.release("train", 2, "What is this?", SOUP, seed=12)
    third = folder.release("test", 1, "Read this", None, seed=13)
    for number in (5, 6):
        folder.release("val", number, "Which box, please?", SOUP, seed=15)
    names, aside, lines = folder.match()
    assert names == {old(2): second, old(3): third, **{old(n): f"images/{old(n)}" for n in (4, 5, 6)}}
    assert list(aside) == [old(1)]
    assert lines[:2] == [
        "images of 6 questions: 0 matched by question and answers, 2 by image hash, 3 kept under their old names, 1 ambiguous, 0 unmatched",
        "1 set aside: several questions of the annotations, or of today's release, have this text and these answers",
    ]


def test_nothing_is_derived_without_todays_annotations_or_beside_a_table_of_names(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.ask(1, "What is this?", SOUP)
    assert derived(folder.written()) == ({}, [])
    folder.release("train", 1, "What is this?", SOUP)
    (folder.written() / NAMES).write_text("{}")
    assert derived(tmp_path) == ({}, [])


@pytest.mark.parametrize("answers", [{"answer": "a"}, [{"answer": 1}], [{"reply": "a"}], ["a"]])
def test_another_layout_of_todays_release_is_refused(tmp_path: Path, answers: object) -> None:
    folder = Folder(tmp_path)
    folder.ask(1, "What is this?", SOUP)
    folder.today = {"val": [{"image": "VizWiz_val_00000000.jpg", "question": "What is this?", "answers": answers}]}
    with pytest.raises(AdapterError, match=r"Annotations/val\.json: line 1, record 0"):
        folder.match()


def test_data_add_stores_the_tables_and_the_adapter_counts_what_it_leaves_out(repo: Path, tmp_path: Path) -> None:
    source = tmp_path / "official"
    folder = Folder(source)
    for number, answers in enumerate((SOUP, BLUE, BLUE)):
        folder.ask(number, "What is this?", answers)
    place = folder.release("train", 7, "What is this?", SOUP, seed=3)
    folder.ask(3, "Which bird?", SOUP)
    (source / folder.release("val", 0, "Which bird?", SOUP)).write_bytes(b"damaged")  # --skip-bad leaves it out
    card = load_card("vizwiz_ans_difference")
    told: list[str] = []
    added = add(repo, card.name, str(folder.written()), card, lambda what, file, size, total: told.append(what), skip_bad=True)
    assert (
        added.inspection.notes[0].startswith("images of 4 questions: 1 matched by question and answers") and not (source / NAMES).exists()
    )
    assert {NAMES, ASIDE} <= added.inspection.files.keys()
    entry = repo / "registry/data" / card.name
    assert json.loads((entry / NAMES).read_text()) == {old(0): place}
    assert add(repo, card.name, str(source), card, skip_bad=True).outcome == "unchanged"
    notes: list[str] = []
    image, sample = vizwiz_ans_difference(AdapterContext(tmp_path, source=entry, note=notes.append))
    assert isinstance(image, Image) and isinstance(sample, Sample) and image.data == photo(3) and sample.sample_id == old(0)
    assert notes == ["3 questions are left out, as their images could not be identified; image_names_aside.json of the entry says why"]
    assert len(list(vizwiz_ans_difference(AdapterContext(tmp_path, source=entry), images=False))) == 4
