"""What is asked, and under which keys: worked out again by hand from the samples."""

import hashlib
import json
from contextlib import chdir
from dataclasses import replace
from types import SimpleNamespace

import pytest
from PIL import ImageDraw, ImageOps

from qualm.registry.formats import pictures as formats
from qualm.runners.contracts.models import Part
from qualm.runners.data.answers import pixel_digest, subject_digest
from qualm.runners.data.dataset import PerturbedFolder, Variant
from qualm.runners.inference.requests import Place, _Decoded, _SampleInput
from qualm.runners.prompts.question import INSTRUCTION
from qualm.runners.runtime.stage import StageError
from tests.support.projects.asking import ENGINE, Words, asker_of, picture, png, sample, write_samples
from tests.support.projects.tiny_project import BLUR, CLEAN

RED, BLUE = picture(1), picture(2)
TYPOS = {"variant": "typos@p=1", "plugin": "typos", "modality": "text", "args": {"p": 1.0}}
STILL = {"variant": "typos@p=0", "plugin": "typos", "modality": "text", "args": {"p": 0.0}}


@pytest.fixture(autouse=True)
def here(tmp_path):
    with chdir(tmp_path):
        yield


@pytest.fixture
def folder(tmp_path):
    samples = [
        sample("a", "red", "What color is it?"),
        sample("b", "red", "Why is that?"),
        sample("c", None, "What is a cone?"),
        sample("d", "blue", "Which?", ["one", "two", "three"]),
    ]
    return write_samples(tmp_path / "d", samples, {"red": png(RED), "blue": png(BLUE)})


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def base(prompt, pixels, question):
    material = json.dumps(["d" * 64, ENGINE.identity, prompt, pixels, question], separators=(",", ":"))
    return hashlib.sha256(b"qualm parts 3\n" + material.encode()).digest()


def applied(make, modality="cross"):
    """A variant of one's own: what it gives for a picture and a question, or for a question."""
    return Variant("own", modality, lambda batch, rngs: [make(*batch[0]) if modality == "cross" else make(batch[0])])


def test_a_survey_says_of_every_cell_what_is_asked(folder):
    asker = asker_of({"d": folder}, [CLEAN])
    cells, broken = asker.survey()
    assert broken == [] and [c.place for c in cells] == [Place(0, row, 0, c.place.base) for row, c in enumerate(cells)]
    choices = f"<image>\nWhich?\nA. one\nB. two\nC. three\n{INSTRUCTION}"
    prompts = ["<image>\nWhat color is it?", "<image>\nWhy is that?", "What is a cone?", choices]
    questions = ["What color is it?", "Why is that?", "What is a cone?", "Which?"]
    pixels = [pixel_digest(RED), pixel_digest(RED), "", pixel_digest(BLUE)]
    for cell, prompt, question, digest in zip(cells, prompts, questions, pixels, strict=True):
        assert cell.place.base == base(prompt, digest or None, question)
        assert cell.pixels == digest and cell.input_digest == sha(f"{prompt}\0{digest or None}")
        assert cell.length == len(prompt) // 4 + (56 * 56 // 784 if digest else 0)
    assert [c.options for c in cells] == [0, 0, 0, 3] and [c.length for c in cells[:3]] == [6 + 4, 5 + 4, 3]
    assert [asker.name(c.place) for c in cells] == ["a", "b", "c", "d"] and asker.stage.counters == {}


def test_cells_are_in_the_order_of_data_sets_samples_and_variants(folder, tmp_path):
    other = write_samples(tmp_path / "e", [sample("z", "red", "What?")], {"red": png(RED)})
    asker = asker_of({"d": folder, "e": other}, [BLUR, CLEAN])
    cells, _ = asker.survey()
    assert [(c.place.dataset, c.place.row, c.place.variant) for c in cells] == [
        (0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 2, 1), (0, 3, 0), (0, 3, 1), (1, 0, 0), (1, 0, 1),
    ]  # fmt: skip
    assert asker.stage.counters == {"dropped (no image to perturb)": 1} and asker.name(cells[-1].place) == "z"


def test_a_models_own_length_is_taken_and_is_told_the_pictures_size(folder):
    model = Words()
    model.length = lambda prompt, size: len(prompt) + (0 if size is None else 1000 * size[0])
    cells, _ = asker_of({"d": folder}, model=model).survey()
    assert [c.length for c in cells[1:3]] == [20 + 56_000, 15]


def test_a_variant_that_changes_nothing_is_counted_and_has_the_clean_digest(folder):
    asker = asker_of({"d": folder}, [CLEAN, STILL, TYPOS])
    cells, _ = asker.survey()
    assert asker.stage.counters == {"unchanged by typos@p=0": 4}
    for clean, still, typed in zip(cells[::3], cells[1::3], cells[2::3], strict=True):
        assert still.input_digest == clean.input_digest != typed.input_digest and still.place.base == clean.place.base
        assert typed.pixels == clean.pixels


def test_a_variant_that_cannot_be_applied_is_dropped_and_counted(folder):
    nowhere = applied(lambda image, question: None if question.startswith("Why") else (image, f"{question}!"))
    asker = asker_of({"d": folder}, [CLEAN, nowhere])
    cells, _ = asker.survey()
    assert [asker.name(c.place) for c in cells if c.place.variant == 1] == ["a", "d"]
    assert asker.stage.counters == {"dropped (no image to perturb)": 1, "dropped (own: not applicable)": 1}


def test_the_second_survey_opens_no_picture_and_says_the_same(folder, monkeypatch):
    first, _ = asker_of({"d": folder}, [CLEAN, BLUR, TYPOS]).survey()
    monkeypatch.setattr(formats, "decoded", lambda data: pytest.fail("a picture was decoded that was seen before"))
    assert asker_of({"d": folder}, [CLEAN, BLUR, TYPOS]).survey() == (first, [])


def test_a_picture_is_decoded_once_for_all_that_is_made_of_it(folder, monkeypatch):
    calls, plain = [], formats.decoded
    monkeypatch.setattr(formats, "decoded", lambda data: calls.append(1) or plain(data))
    asker = asker_of({"d": folder}, [CLEAN, BLUR, {**BLUR, "variant": "b3", "args": {"radius": 3.0}}])
    asker.stage.settings = replace(asker.stage.settings, workers=1)
    cells, _ = asker.survey()
    assert len(calls) == 2, "red, which a and b show, and blue"
    requests = [asker.request(cell.place, asker.parts(cell.options)) for cell in cells]
    assert len(calls) == 2 and [r.pixels for r in requests] == [c.pixels for c in cells]


def test_of_decoded_pictures_the_last_ones_stay(folder, monkeypatch):
    calls, plain = [], formats.decoded
    monkeypatch.setattr(formats, "decoded", lambda data: calls.append(1) or plain(data))
    asker = asker_of({"d": folder})
    asker._decoded = _Decoded(max_bytes=RED.width * RED.height * 3)
    (a, b, _, d), _ = asker.survey()
    asker.request(d.place, ("answer",))  # threads look at samples in no certain order
    calls.clear()
    for cell in (d, a, b, d, d, a):
        asker.request(cell.place, ("answer",))
    assert len(calls) == 3, "d was the last; a, d and a again"


@pytest.mark.parametrize(("most", "made"), [(2, "a b c a"), (1, "a b a c a b c"), (0, "a b a c a b c"), (3, "a b c")])
def test_as_many_decoded_pictures_stay_as_fit(most, made):
    """The last one in any case; those not asked for longest go first."""
    calls = []

    def item(name):
        return SimpleNamespace(files=(name,), images=lambda: calls.append(name) or (RED,))

    decoded = _Decoded(most * RED.width * RED.height * 3)
    for name in "abacaabcc" if most < 2 else "aabbccaac":
        assert decoded.images(item(name)) == (RED,)
    assert " ".join(calls) == made


def test_a_perturbation_may_draw_on_the_picture_it_is_given(folder):
    """Other variants of it are made of the picture as it was."""

    def barred(pictures, rngs):
        ImageDraw.Draw(pictures[0]).rectangle((0, 0, 3, 3), fill=(0, 255, 0))
        return pictures

    asker = asker_of({"d": folder}, [Variant("barred", "image", barred), CLEAN, Variant("again", "image", barred)])
    cells, _ = asker.survey()
    bars = RED.copy()
    ImageDraw.Draw(bars).rectangle((0, 0, 3, 3), fill=(0, 255, 0))
    of_a = [cell.pixels for cell in cells if asker.name(cell.place) == "a"]
    assert of_a == [pixel_digest(bars), pixel_digest(RED), pixel_digest(bars)]
    assert [asker.request(c.place, ("answer",)).pixels for c in cells] == [c.pixels for c in cells]


def test_a_cross_variants_question_is_remembered_with_its_picture(folder, tmp_path, monkeypatch):
    (tmp_path / "crossing.py").write_text(
        "def crossing(batch, rngs):\n    return [(image.rotate(90), f'{question} {image.width}') for image, question in batch]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import crossing

    variant = Variant("crossing", "cross", crossing.crossing, {}, "crossing")
    first, _ = asker_of({"d": folder}, [variant]).survey()
    assert first[0].place.base == base("<image>\nWhat color is it? 56", pixel_digest(RED.rotate(90)), "What color is it? 56")
    monkeypatch.setattr(formats, "decoded", lambda data: pytest.fail("a picture was decoded that was seen before"))
    again = Variant("crossing", "cross", lambda *_: pytest.fail("made again"), {}, "crossing")
    assert asker_of({"d": folder}, [again]).survey() == (first, [])


def test_what_a_stage_has_made_is_asked_as_it_lies_there(folder, tmp_path):
    """`a` with another picture, `b` with its own and another question, no `c` and `d`."""
    made = write_samples(
        tmp_path / "made", [sample("a", "new", "What color is it?"), sample("b", "red", "Because?")], {"new": png(ImageOps.invert(RED))}
    )
    asker = asker_of({"d": folder}, [CLEAN, Variant("made", "cross", folders={"d": PerturbedFolder(made)})])
    cells, _ = asker.survey()
    assert asker.stage.counters == {"dropped (no image to perturb)": 1, "dropped (made: not applicable)": 1}
    a, b = (c for c in cells if c.place.variant == 1)
    assert (a.pixels, b.pixels) == (pixel_digest(ImageOps.invert(RED)), pixel_digest(RED))
    assert b.place.base == base("<image>\nBecause?", pixel_digest(RED), "Because?")
    request = asker.request(a.place, ("answer",))
    assert request.image.tobytes() == ImageOps.invert(RED).tobytes() and request.pixels == a.pixels


def test_broken_samples_are_named_and_the_others_surveyed(tmp_path, capfd):
    samples = [sample("a", "bad", "What?"), sample("b", "gone", "What?"), sample("c", "red", "What?")]
    asker = asker_of({"d": write_samples(tmp_path / "d", samples, {"bad": b"no picture", "red": png(RED)})})
    cells, broken = asker.survey()
    assert [asker.name(c.place) for c in cells] == ["c"] and len(broken) == 2
    assert broken[0].startswith("d: sample 'a', image 'bad': cannot be decoded (10 bytes)")
    assert broken[1] == "d: sample 'b', image 'gone': is not in the dataset's images"
    assert capfd.readouterr().err == "".join(f"t/infer: {line}\n" for line in broken)


def test_a_prompt_that_does_not_fit_is_a_broken_sample(folder):
    model = Words()
    model.misfit = lambda prompt, image: "it is about cones" if "cone" in prompt and not image else ""
    cells, broken = asker_of({"d": folder}, model=model).survey()
    assert broken == ["d: sample 'c', no image, variant clean: it is about cones"] and len(cells) == 3


def test_a_question_that_cannot_be_rendered_names_its_sample(tmp_path):
    asker = asker_of({"d": write_samples(tmp_path / "d", [sample("many", None, "Which?", list(map(str, range(27))))], {})})
    with pytest.raises(StageError, match=r"^d: sample 'many': a question has 27 options, but only 26 letters exist: 'Which\?'$"):
        asker.survey()


@pytest.mark.parametrize(
    ("needs", "params", "options", "parts"),
    [
        (["text"], {}, 0, ("answer",)),
        (["text", "p_true", "logprobs_without_image"], {"draws": 2}, 0, ("answer", "without_image", "p_true")),
        (["draws", "p_yes"], {"draws": 2}, 0, ("answer", "p_yes", "draw 1", "draw 2")),
        (["draws"], {}, 0, ("answer",)),
        (["draws", "p_yes", "option_logits"], {"draws": 2}, 3, ("options",)),
        (["draws", "p_yes"], {"draws": 2, "in_words": True}, 3, ("answer",)),
        (["draws"], {"draws": 1, "in_words": True}, 0, ("answer", "draw 1")),
    ],
)
def test_the_parts_that_are_wanted(folder, needs, params, options, parts):
    assert asker_of({"d": folder}, needs=needs, **params).parts(options) == parts


def test_what_is_read_of_the_inside_is_in_the_order_of_names(folder):
    needs = [f"hidden_states/{layer}/prompt_last" for layer in range(8)]
    asker = asker_of({"d": folder}, needs=needs[::-1])
    assert asker.internals == tuple(needs) and asker.parts(3) == ("options", *needs)


def key(place, how, stream=0, about=b""):
    return hashlib.sha256(
        place.base + stream.to_bytes(16, "big") + about + json.dumps([*how, {}], sort_keys=True, separators=(",", ":")).encode()
    )


def test_keys_hold_all_that_a_part_depends_on_and_no_more(folder):
    asker = asker_of({"d": folder}, needs=["draws", "p_true", "p_true_sampling"], draws=2, temperature=0.5, top_p=0.9)
    cells, _ = asker.survey()
    a, d = cells[0].place, cells[3].place
    stream = int.from_bytes(hashlib.sha256(b"7\0a").digest()[:16], "big")
    greedy, about = {"method": "greedy", "max_new_tokens": 4}, subject_digest(Part("x"), ["y"])
    drawn = {"temperature": 0.5, "top_p": 0.9}
    limited = asker_of({"d": folder}, needs=["draws"], draws=2, temperature=0.5, top_p=0.9, top_k=50)
    assert limited.key(a, "draw 2") == key(a, ["draw 2", {**greedy, "method": "sample", **drawn, "top_k": 50}], stream).digest()
    assert limited.key(a, "answer") == asker.key(a, "answer")
    assert asker.key(a, "answer") == key(a, ["answer", greedy]).digest()
    assert asker.key(d, "options") == key(d, ["options", {"method": "choice", "options": 3}]).digest()
    assert asker.key(d, "answer") == key(d, ["answer", greedy]).digest()
    assert asker.key(a, "draw 2") == key(a, ["draw 2", {**greedy, "method": "sample", **drawn}], stream).digest()
    assert asker.key(a, "p_true", about) == key(a, ["p_true", greedy], 0, about).digest()
    shown = ["p_true_sampling", {**greedy, **drawn, "draws": 2}]
    assert asker.key(a, "p_true_sampling", about) == key(a, shown, stream, about).digest()
    assert asker.key(a, "answer") == key(a, ["answer", greedy]).digest(), "and so the second time"


def test_options_of_another_number_have_another_key(tmp_path):
    samples = [sample("two", None, "?", ["a", "b"]), sample("three", None, "?", ["a", "b", "c"])]
    asker = asker_of({"d": write_samples(tmp_path / "d", samples, {})})
    two, three = (cell.place for cell in asker.survey()[0])
    for place, n in ((two, 2), (three, 3), (two, 2)):
        assert asker.key(place, "options") == key(place, ["options", {"method": "choice", "options": n}]).digest()


def test_decoding_is_the_stages_and_otherwise_the_usual(folder):
    usual = asker_of({"d": folder}).decoding
    own = asker_of({"d": folder}, max_new_tokens=9, temperature=0.2, top_p=0.8).decoding
    assert (usual.max_new_tokens, usual.temperature, usual.top_p) == (4, 0.7, 1.0)
    assert (own.max_new_tokens, own.temperature, own.top_p) == (9, 0.2, 0.8)


def test_a_request_is_what_was_surveyed(folder):
    asker = asker_of({"d": folder}, [CLEAN, BLUR], draws=1, needs=["draws"])
    cells, _ = asker.survey()
    answer, places = Part("red"), {(asker.name(c.place), c.place.variant): c.place for c in cells}
    request = asker.request(places["a", 0], ["p_true"], answer, {1: "blue"})
    assert (request.prompt, request.question, request.options) == ("<image>\nWhat color is it?", "What color is it?", 0)
    assert (request.parts, request.greedy, request.drawn) == (("p_true",), answer, {1: "blue"})
    assert request.image.tobytes() == RED.tobytes() and request.pixels == pixel_digest(RED)
    assert request.stream == int.from_bytes(hashlib.sha256(b"7\0a").digest()[:16], "big")
    bare = asker.request(places["c", 0], ["answer"])
    assert (bare.image, bare.pixels, bare.greedy, bare.drawn) == (None, "", None, {}) and bare.prompt == "What is a cone?"
    blurred = asker.request(places["d", 1], ["options"])
    assert blurred.options == 3 and blurred.pixels == pixel_digest(blurred.image) != pixel_digest(BLUE)


def test_a_variant_that_comes_out_differently_is_refused_by_name(folder):
    numbers = iter(map(str, range(99)))
    asker = asker_of({"d": folder}, [applied(lambda question: question + next(numbers), modality="text")])
    place = asker.survey()[0][1].place
    with pytest.raises(StageError, match=r"^d: sample 'b', variant own: two runs of the perturbation differ; a perturbation must draw"):
        asker.request(place, ("answer",))


def test_a_picture_that_goes_during_the_run_is_told(folder):
    asker = asker_of({"d": folder})
    place = asker.survey()[0][0].place
    samples = [sample("a", "red", "What color is it?")]
    changed = asker_of({"d": write_samples(folder, samples, {"red": b"no picture"})})
    with pytest.raises(StageError, match=r"^d: sample 'a', image 'red': cannot be decoded .*; it could be read a moment ago: .*"):
        changed.request(place, ("answer",))


def test_the_key_of_several_pictures_is_of_all_of_them_in_order(folder, tmp_path):
    several = [sample("two", '["red", "blue"]', "Is <image> like <image>?"), sample("turned", '["blue", "red"]', "Alike?")]
    other = write_samples(tmp_path / "e", several, {"red": png(RED), "blue": png(BLUE)})
    asker = asker_of({"e": other}, [CLEAN, TYPOS])
    cells, broken = asker.survey()
    assert broken == [] and [c.pictures for c in cells] == [2] * 4
    both = sha("\n".join(["pictures", pixel_digest(RED), pixel_digest(BLUE)]))
    turned = sha("\n".join(["pictures", pixel_digest(BLUE), pixel_digest(RED)]))
    assert [c.pixels for c in cells] == [both, both, turned, turned]
    assert cells[2].length == len("<image>\n<image>\nAlike?") // 4 + 2 * 56 * 56 // 784
    assert cells[2].place.base == base("<image>\n<image>\nAlike?", turned, "Alike?")
    request = asker.request(cells[0].place, ("answer",))
    assert [p.tobytes() for p in request.images] == [RED.tobytes(), BLUE.tobytes()] and request.pictures == 2


def test_a_model_of_one_picture_refuses_before_the_first_question(folder, tmp_path):
    other = write_samples(tmp_path / "e", [sample("two", '["red", "blue"]', "Alike?")], {"red": png(RED), "blue": png(BLUE)})
    asker = asker_of({"e": other}, [CLEAN])
    asker._refusal = lambda pictures: f"{pictures} are too many" if pictures > 1 else ""
    alone = asker_of({"d": folder})
    alone._refusal = asker._refusal
    assert len(alone.survey()[0]) == 4, "one image is not too many"
    with pytest.raises(StageError, match=r"sample 'two'.*has 2 images: 2 are too many"):
        asker.survey()


def test_what_is_known_of_pictures_is_kept_by_the_bytes_of_their_files():
    """Of one as it was before questions could have several."""
    for files, text in (
        ((b"a",), b"a"),
        ((), b""),
        ((b"a", b"b"), b"pictures" + b"".join(hashlib.sha256(f).digest() for f in (b"a", b"b"))),
    ):
        assert _SampleInput(SimpleNamespace(files=files)).digest == hashlib.sha256(text).digest()


def test_a_perturbed_question_goes_through_the_template_with_its_hint(tmp_path):
    hinted = {**sample("a", "red", "Look left.\nWhat color is it?"), "meta": {"hint": "Look left."}}
    folder = write_samples(tmp_path / "d", [hinted], {"red": png(RED)})
    shouted = applied(lambda question: question.upper(), "text")
    prompt = {"template": "Hint: {hint}\nQ: {question}\nA:", "system": "Be brief."}
    asker = asker_of({"d": folder}, [CLEAN, shouted], prompt=prompt)
    cells, _ = asker.survey()
    clean, loud = (asker.request(cell.place, ("answer",)) for cell in cells)
    assert clean.prompt == "Be brief.\n<image>\nHint: Look left.\nQ: What color is it?\nA:"
    assert loud.prompt == "Be brief.\n<image>\nHint: LOOK LEFT.\nQ: WHAT COLOR IS IT?\nA:"
    assert clean.question == "What color is it?" and len({cell.place.base for cell in cells}) == 2


def test_examples_have_their_images_first_and_count_in_the_keys(tmp_path):
    splits = {"red": "test", "blue": "train"}
    rows = [{**sample(n, n, f"What is {n}?"), "references": [n], "split": split} for n, split in splits.items()]
    folder = write_samples(tmp_path / "d", rows, {"red": png(RED), "blue": png(BLUE)})
    asker = asker_of({"d": folder}, prompt={"examples": {"split": "train", "shots": 1}}, splits={"d": ["test"]})
    (cell, *_), _ = asker.survey()
    request = asker.request(cell.place, ("answer",))
    assert request.prompt == "<image>\nWhat is blue?\nblue\n<image>\nWhat is red?"
    assert [pixel_digest(image) for image in request.images] == [pixel_digest(BLUE), pixel_digest(RED)] and request.own_pictures == 1
    other = write_samples(tmp_path / "e", rows, {"red": png(RED), "blue": png(picture(3))})
    (again, *_), _ = asker_of({"e": other}, prompt={"examples": {"split": "train", "shots": 1}}, splits={"e": ["test"]}).survey()
    assert again.place.base != cell.place.base  # only the pixels of the example differ
