import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.mme import SUBTASKS, mme
from qualm.registry.sample import Image, Sample
from tests.support.projects.scored import scored
from tests.support.projects.stages import ref

ALL = [name for names in SUBTASKS.values() for name in names]
TEXT = "Is there a dog? Please answer yes or no.\tYes\nIs there a cat? Please answer yes or no.\tNo\n"


def folder(root, names=ALL, pictures=2, text=TEXT, apart=(), suffix=".jpg"):
    for name in names:
        texts, images = (root / name / "questions_answers_YN", root / name / "images") if name in apart else (root / name,) * 2
        texts.mkdir(parents=True, exist_ok=True)
        images.mkdir(parents=True, exist_ok=True)
        for i in range(pictures):
            (texts / f"{i:04d}.txt").write_text(text)
            (images / f"{i:04d}{suffix}").write_bytes(f"{name}{i}".encode())
    return root


def read(source, **arguments):
    return list(mme(AdapterContext(source, source=source), **arguments))


def test_two_questions_to_a_picture(tmp_path):
    made = read(folder(tmp_path, apart=("posters", "code_reasoning")))
    image, yes, no = made[:3]
    assert image == Image("existence/0000", b"existence0", "existence/0000.jpg")
    assert yes == Sample(
        "existence/0000/1",
        "Is there a dog? Please answer yes or no.",
        "existence/0000",
        references=("yes",),
        category="perception/existence",
        source="mme",
        group="existence/0000",
        meta={"subtask": "existence"},
    )
    assert (no.sample_id, no.references) == ("existence/0000/2", ("no",))
    samples = [s for s in made if isinstance(s, Sample)]
    assert list(dict.fromkeys(s.meta["subtask"] for s in samples)) == ALL
    assert {i.path for i in made if isinstance(i, Image) and i.image_id == "posters/0001"} == {"posters/images/0001.jpg"}


def test_the_folder_of_the_release_and_a_part(tmp_path):
    folder(tmp_path / "MME_Benchmark_release_version", SUBTASKS["cognition"], suffix=".png")
    made = read(tmp_path, part="cognition")
    assert made[0].path == "MME_Benchmark_release_version/commonsense_reasoning/0000.png"
    assert {s.category.split("/")[0] for s in made if isinstance(s, Sample)} == {"cognition"}
    with pytest.raises(AdapterError, match="expected a folder for every subtask; missing existence, count"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("One?\tYes\n", r"0000\.txt: expected 2 lines of question, tab, Yes or No, got 1"),
        ("One?\tYes\nTwo? No\n", r"0000\.txt: line 2: expected a question, a tab, and Yes or No, got 'Two\? No'"),
        ("One?\tYes\nTwo?\tMaybe\n", "line 2: answer: expected yes or no, got 'Maybe'"),
        ("One?\tYes\n \tYes\n", r"line 2: expected a question, a tab, and Yes or No, got ' \\tYes'"),
        ("One?\tYes\nTwo?\tNo\nThree?\tNo\n", "expected 2 lines of question, tab, Yes or No, got 3"),
    ],
)
def test_what_is_unknown_is_reported(tmp_path, text, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, text=text))


def test_bytes_that_are_no_text_a_missing_picture_and_an_empty_subtask(tmp_path):
    folder(tmp_path)
    (tmp_path / "count/0001.jpg").unlink()
    with pytest.raises(AdapterError, match=r"count/0001\.txt: expected its image at count/0001\.jpg or count/0001\.png"):
        read(tmp_path)
    (tmp_path / "existence/0000.txt").write_bytes(b"\xff\xfe\tYes")
    with pytest.raises(AdapterError, match="expected text in UTF-8"):
        read(tmp_path)
    for path in (tmp_path / "existence").glob("*.txt"):
        path.unlink()
    with pytest.raises(AdapterError, match="existence: expected a text file for every image, found none"):
        read(tmp_path)


def test_scores_of_the_parts(tmp_path, monkeypatch):
    """All right but the second question of every first picture of perception: there 75 + 50, elsewhere 200."""
    samples = [s for s in read(folder(tmp_path)) if isinstance(s, Sample)]
    monkeypatch.chdir(tmp_path)
    wrong = {s.sample_id for s in samples if s.category.startswith("perception") and s.sample_id.endswith("0000/2")}
    texts = {s.sample_id: "The answer is no" if s.sample_id in wrong else s.references[0].title() for s in samples}
    metrics = [ref("mme_score", judge="mme", picture="group", subtask="subtask"), ref("group_accuracy", by="image_id", of="correct")]
    found = scored(samples, texts, [ref("mme")], metrics, slices=["category"])
    assert found["category=perception", "mme_score"]["value"] == pytest.approx(10 * 125)
    assert found["category=cognition", "mme_score"]["value"] == pytest.approx(800)
    assert found["category=perception/OCR", "mme_score"]["value"] == pytest.approx(125)
    assert found["all", "mme_score"]["value"] == pytest.approx(2050)
    assert found["category=perception", "group_accuracy"]["value"] == 0.5


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, SUBTASKS["cognition"], 1), {"part": "cognition"}
