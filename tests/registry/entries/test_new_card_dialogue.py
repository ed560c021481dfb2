"""The conversation of `qualm data new`: what is shown, what a person is asked at a terminal, what is refused, what to type next."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image as Picture

import qualm.registry.entries.card as cards
from qualm.registry.entries import new_card_dialogue as dialogue
from qualm.registry.entries.card import load_card
from qualm.registry.entries.infer_columns import NewCardError
from qualm.registry.entries.new_card import SamplePreview
from qualm.registry.entries.new_card_dialogue import new_card
from qualm.registry.sample import Image, Sample
from tests.support.data.recordings import png


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data/pics").mkdir(parents=True)
    Picture.new("RGB", (6, 4)).save(tmp_path / "data/pics/a.png")
    (tmp_path / "data/train.csv").write_text("file,query,label,kind\na.png,Which?,x,k\na.png,Who?,y,k\n")
    return tmp_path / "data"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cards, "FOLDER", tmp_path)
    return tmp_path


def start(
    folder: Path, cards: Path, name: str = "my-data", adapter: str | None = None, options: tuple[str, ...] = (), **about: str
) -> None:
    new_card(name, folder, cards, adapter, options, about, yes=True, force=False)


def test_what_is_shown_and_written(folder: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(folder, place, licence="CC0")
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{folder}: read as image_table, train: train.csv"
    assert "  query: Which?" in shown and "  file: a.png" in shown
    first = next(i for i, line in enumerate(shown) if line.startswith("1. "))
    assert shown[first].endswith("[train]  pics/a.png, PNG 6 x 4, " + shown[first].rpartition(", ")[2])
    assert shown[first + 1 : first + 3] == ["   Which?", "   answer: x"]
    assert shown[-3:] == [
        f"wrote {place / 'my-data.yaml'}",
        f"next: qualm data add my-data --from {folder}",
        "      then in a spec: datasets: {my_data: {card: my-data}}",
    ]
    card = load_card("my-data", place)
    assert (card.licence, card.args["question"], card.args["answer"], card.args["category"]) == ("CC0", "query", "label", "kind")


def test_options_go_before_what_is_proposed(folder: Path, place: Path) -> None:
    (folder / "other.csv").write_text("file,query,label,kind\na.png,Else?,x,k\n")
    start(folder, place, options=("files={test: other.csv}", "answer=kind"))
    args = load_card("my-data", place).args
    assert args["files"] == {"test": "other.csv"} and args["answer"] == "kind"


@pytest.mark.parametrize(
    ("adapter", "options", "message"),
    [
        ("mme", (), "--adapter mme: expected one of vlmevalkit_tsv, coco_folder, image_table"),
        (None, ("quetsion=query",), "-O quetsion=query: expected NAME=VALUE of image_table's parameters"),
        ("image_table", ("files=3",), "files"),
    ],
)
def test_what_is_refused(folder: Path, place: Path, adapter: str | None, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(NewCardError, match=message):
        start(folder, place, adapter=adapter, options=options)
    assert list(place.glob("*.yaml")) == []


def test_no_folder(folder: Path, place: Path) -> None:
    for path in (folder / "gone", folder / "train.csv"):
        with pytest.raises(NewCardError, match="expected a folder; an archive has to be unpacked first"):
            start(path, place)


class Person:
    """Answers at a terminal, in order; the proposal where there are no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, replies: dict[str, str], confirmed: bool = True) -> None:
        self.asked: list[tuple[str, str]] = []
        self.replies, self.confirmed, self.questions = replies, confirmed, 0
        monkeypatch.setattr(dialogue.sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(dialogue.typer, "prompt", self._prompt)
        monkeypatch.setattr(dialogue.typer, "confirm", self._confirm)

    def _prompt(self, text: str, default: str) -> str:
        self.asked.append((text, default))
        return self.replies.get(text.partition(" (")[0], default)

    def _confirm(self, text: str, default: bool) -> bool:
        assert default
        self.questions += 1
        return self.confirmed


def test_a_person_is_asked_and_confirms(folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person = Person(monkeypatch, {"category": "-", "title": " Mine ", "answer": "kind"})
    new_card("mine", folder, place, None, (), {"licence": "CC0"}, yes=False, force=False)
    card = load_card("mine", place)
    assert (card.title, card.licence, card.args["answer"]) == ("Mine", "CC0", "kind") and not card.args.get("category")
    asked = dict(person.asked)
    assert asked["title (what people call it)"] == "-" and person.questions == 1
    assert not any(text.startswith("licence") for text in asked)  # it was given
    assert next(default for text, default in asked.items() if text.partition(" (")[0] == "question") == "query"


def test_nothing_is_written_that_a_person_does_not_confirm(folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Person(monkeypatch, {}, confirmed=False)
    with pytest.raises(NewCardError, match="nothing was written; `-O NAME=VALUE` sets any of `qualm ls datasets image_table` beforehand"):
        new_card("mine", folder, place, None, (), {}, yes=False, force=False)
    assert list(place.glob("*.yaml")) == []


def test_yes_asks_nothing_at_a_terminal(folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person = Person(monkeypatch, {})
    new_card("mine", folder, place, None, (), {}, yes=True, force=False)
    assert person.asked == [] and person.questions == 0


def test_a_card_that_is_there_is_replaced_by_force_alone(folder: Path, place: Path) -> None:
    start(folder, place, "mine")
    with pytest.raises(NewCardError, match="is there already; --force"):
        start(folder, place, "mine")
    new_card("mine", folder, place, None, (), {"title": "Anew"}, yes=True, force=True)
    cards.read_card.cache_clear()
    assert load_card("mine", place).title == "Anew"


def sample(**more: object) -> Sample:
    return Sample(**{"sample_id": "s1", "question": "One?\nTwo?", "split": "test", **more})  # type: ignore[arg-type]


def shown(preview: SamplePreview, capsys: pytest.CaptureFixture[str]) -> list[str]:
    dialogue._show(3, preview)
    return capsys.readouterr().out.splitlines()


def test_a_sample_with_options(capsys: pytest.CaptureFixture[str]) -> None:
    options = tuple(f"o{i}" for i in range(27))
    lines = shown(SamplePreview(sample(choices=options, answer_index=1)), capsys)
    assert lines[:6] == ["", "3. s1  [test]  no image", "   One?", "   Two?", "     A o0", "   > B o1"]
    assert lines[-2:] == ["     Z o25", "     27 o26"]


def test_a_sample_without(capsys: pytest.CaptureFixture[str]) -> None:
    more = {"references": ("a", "b"), "category": "c", "meta": {"camera": "old", "none": ""}, "answerable": False, "image_id": "x"}
    lines = shown(SamplePreview(sample(**more)), capsys)
    assert lines == [
        "", "3. s1  [test]  image not shown", "   One?", "   Two?", "   answer: a | b",
        "   category: c, camera: old, answerable: no",
    ]  # fmt: skip
    assert shown(SamplePreview(sample()), capsys)[-1] == "   answer: (none)"


def test_pictures_by_their_path_or_id(capsys: pytest.CaptureFixture[str]) -> None:
    data = png(side=8)
    assert f"deep/a.png, PNG 8 x 8, {len(data)} B" in shown(SamplePreview(sample(), (Image("i", data, "deep/a.png"),)), capsys)[1]
    assert f"  i, PNG 8 x 8, {len(data)} B" in shown(SamplePreview(sample(), (Image("i", data, ""),)), capsys)[1]
    assert "i, NOT A PICTURE: 20 B that begin with b'0123456789abcdef'" in shown(
        SamplePreview(sample(), (Image("i", b"0123456789abcdefghij", ""),)), capsys
    )[1]  # fmt: skip


def test_several_pictures_are_counted_and_the_first_described(capsys: pytest.CaptureFixture[str]) -> None:
    data = png(side=8)
    images = tuple(Image(name, data, "") for name in "abcde")
    line = shown(SamplePreview(sample(image_id='["a", "b", "c", "d", "e"]'), images), capsys)[1]
    about = f"PNG 8 x 8, {len(data)} B"
    assert line.endswith(f"  5 images: a, {about}; b, {about}; c, {about}; and 2 more")
    assert shown(SamplePreview(sample(image_id='["a", "b"]')), capsys)[1].endswith("  image not shown")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a  b\n c", "a b c"), ("x" * 120, "x" * 120), ("x" * 121, "x" * 117 + "..."), ("\x1b[31m", "\\x1b[31m")],
)
def test_texts_of_others_stand_on_one_line(text: str, line: str) -> None:
    assert dialogue._one_line(text) == line
