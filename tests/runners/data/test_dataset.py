"""What a model sees: variants of every modality, pictures decoded once they are asked for, and what is wrong with them."""

import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import PIL.Image
import pytest

from qualm.registry.plugins.registry import get, load, names
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.contracts.perturbations import random_generator
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder, Variant, VariantInput, _Pictures, decode_image, read_variants
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import StageError
from tests.support.data.hostile import READABLE, pictures


def png(level, mode="RGB", size=(5, 3)):
    data = io.BytesIO()
    PIL.Image.new(mode, size, level).save(data, "PNG")
    return data.getvalue()


def item(sample_id, question):
    return VariantInput(sample_id, question, None, "here")


def dataset(tmp_path, pictures, samples):
    rows = [{"image_id": f"i{n}", "image": {"bytes": data, "path": ""}} for n, data in enumerate(pictures)]
    half = (len(rows) + 1) // 2
    write_table(tmp_path / "images" / "00000.parquet", rows[:half], IMAGES)
    write_table(tmp_path / "images" / "00001.parquet", rows[half:], IMAGES)
    write_table(
        tmp_path / "samples.parquet", [{"sample_id": f"s{n}", "image_id": i, "question": "q"} for n, i in enumerate(samples)], SAMPLES
    )
    return DatasetFolder("d", tmp_path)


def test_pictures_are_found_in_any_file_and_order_and_come_as_rgb(tmp_path):
    pictures = [png(7, "L"), png((1, 2, 3)), png((9, 9, 9, 0), "RGBA"), png(5, "P")]
    data = dataset(tmp_path, pictures, ["i3", "i1", "i0", "i2", None, "i1"])
    assert [data.image(r) and data.image(r).mode for r in range(6)] == ["RGB"] * 4 + [None, "RGB"]
    assert data.image(1).getpixel((0, 0)) == (1, 2, 3)
    assert data.image(2).getpixel((0, 0)) == (7, 7, 7)
    assert data.image(3).getpixel((0, 0)) == (255, 255, 255)
    assert len(data) == 6


def test_row_groups_stay_in_memory_while_there_is_room_those_that_were_read_last(tmp_path):
    shown = [png(n) for n in range(3)]
    for n, data in enumerate(shown):
        write_table(tmp_path / f"{n:05d}.parquet", [{"image_id": f"i{n}", "image": {"bytes": data, "path": ""}}], IMAGES)

    def held(keep):
        """The files of which something is held after some reads, and how many bytes."""
        pictures = _Pictures(tmp_path, {"i0", "i1", "i2"}, keep)
        assert [pictures.data(f"i{n}") for n in (0, 1, 0, 2)] == [shown[n] for n in (0, 1, 0, 2)]
        return [number for number, _ in pictures._groups], sum(group.nbytes for group in pictures._groups.values())

    files, size = held(10**6)
    assert files == [1, 0, 2]
    assert held(size // 3 * 2) == ([0, 2], size // 3 * 2)
    assert held(size // 3 * 2 - 1)[0] == held(0)[0] == [2]


@pytest.mark.parametrize("data", [b"", b"not a picture", png(0, size=(90, 90))[:60], None])
def test_a_broken_picture_is_named(tmp_path, data):
    with pytest.raises(BrokenSampleError, match=r"d: sample 's1', image 'i1'"):
        dataset(tmp_path, [png(0), data], ["i0", "i1"]).image(1)


def test_of_several_pictures_the_broken_one_is_named(tmp_path):
    data = dataset(
        tmp_path, [png(0), b"none", png(1)], ['["i0", "i1", "i2"]', '["i0", "i9"]', '["i0", "i2", "i0", "i2", "i0", "i2"]', None]
    )
    with pytest.raises(BrokenSampleError, match=r"^d: sample 's0', images 'i0', 'i1', 'i2': number 2 of 3: cannot be decoded \(4 bytes\)"):
        data.item(0).images()
    with pytest.raises(BrokenSampleError, match=r"^d: sample 's1', images 'i0', 'i9': 'i9' is not in the dataset's images$"):
        data.item(1)
    assert data.where(2) == "d: sample 's2', images 'i0', 'i2', 'i0', 'i2' and 2 more" and data.where(3) == "d: sample 's3', no image"


def test_a_picture_of_absurd_size_is_broken(tmp_path, monkeypatch):
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(BrokenSampleError, match="exceeds limit"):
        dataset(tmp_path, [png(0, size=(50, 50))], ["i0"]).image(0)


def test_read_variants_loads_what_they_name():
    clean, blur = read_variants(
        [{"variant": "clean", "plugin": None, "args": {}}, {"variant": "blur@radius=1.0", "plugin": "blur", "args": {"radius": 1.0}}]
    )
    assert (clean.name, clean.function, clean.fits(False)) == ("clean", None, True)
    assert (blur.modality, blur.fits(False), blur.fits(True)) == ("image", False, True)
    image = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8))
    assert clean.apply(0, item("s", "q"), image) == (image, "q")
    blurred, question = blur.apply(0, item("s", "q"), image)
    assert question == "q" and blurred.tobytes() != image.tobytes()


BLINDED = [{"variant": f"{way}_picture", "plugin": None, "args": {}, "picture": way} for way in ("swapped", "removed")]


def test_a_sample_is_denied_its_own_picture(tmp_path):
    data = dataset(tmp_path, [png(10 * n) for n in range(4)], ["i0", "i1", "i2", "i3", None])
    swapped, removed = read_variants(BLINDED)
    for row in range(4):
        shown = swapped.item(data, row)
        assert (shown.sample_id, shown.question) == (f"s{row}", "q")
        assert shown.data in {data.encoded(r) for r in range(4)} - {data.encoded(row)}
        assert swapped.apply(0, shown, shown.image())[0].tobytes() == shown.image().tobytes()
        assert removed.item(data, row).data is None and removed.apply(0, removed.item(data, row), None) == (None, "q")
    assert not swapped.fits(False) and not removed.fits(False), "a question without a picture is blind as it is"
    assert swapped.item(data, 4) is None


def test_whose_picture_it_is_does_not_depend_on_which_rows_are_looked_at(tmp_path):
    data = dataset(tmp_path, [png(10 * n) for n in range(6)], [f"i{n}" for n in range(6)])
    (swapped, _), part = read_variants(BLINDED), data.only([4, 2])
    assert [swapped.item(part, row).data for row in (0, 1)] == [swapped.item(data, row).data for row in (4, 2)]


def test_without_another_picture_there_is_no_such_variant(tmp_path):
    data = dataset(tmp_path, [png(0)], ["i0", "i0"])
    assert read_variants(BLINDED)[0].item(data, 0) is None


def test_every_modality():
    image = PIL.Image.new("RGB", (2, 2))
    shout = Variant("shout", "text", lambda batch, rngs, *, times: [b.upper() * times for b in batch], {"times": 2})
    assert shout.apply(0, item("s", "why"), None) == (None, "WHYWHY") and shout.fits(False)
    both = Variant("both", "cross", lambda batch, rngs: [(PIL.Image.new("RGB", i.size, "red"), q + "!") for i, q in batch])
    made, question = both.apply(0, item("s", "why"), image)
    assert (made.getpixel((0, 0)), question, both.fits(False)) == ((255, 0, 0), "why!", False)


@pytest.mark.parametrize(
    ("modality", "function", "expected"),
    [
        (
            "image",
            lambda batch, rngs: [i.resize((1, 1)) for i in batch],
            "expected an image of 2 x 2, mode RGB, .* of 1 x 1",
        ),
        ("image", lambda batch, rngs: [i.convert("L") for i in batch], "got an image of 2 x 2, mode L"),
        ("image", lambda batch, rngs: ["x"], "expected an image of 2 x 2, mode RGB, as the one it was given, got the str 'x'"),
        ("text", lambda batch, rngs: [3], "expected a text, got the int 3"),
        ("cross", lambda batch, rngs: [batch[0][0]], "expected an image and a question, got an image"),
        ("text", lambda batch, rngs: "why", "expected a list of as many items as it was given, 1, got the str 'why'"),
        ("text", lambda batch, rngs: [], "got a list of 0"),
    ],
)
def test_what_breaks_a_perturbations_contract_is_one_line(modality, function, expected):
    image = PIL.Image.new("RGB", (2, 2))
    with pytest.raises(StageError, match=rf"my/plugin\.py: variant v: sample 's': .*{expected}"):
        Variant("v", modality, function, module="my.plugin").apply(0, item("s", "why"), image)


def test_chance_comes_from_seed_variant_and_sample_alone():
    draw = Variant("draw", "text", lambda batch, rngs: [str(rng.integers(10**9)) for rng in rngs])
    other = Variant("other", "text", draw.function)
    seen = [
        draw.apply(0, item("a", ""), None),
        draw.apply(0, item("b", ""), None),
        draw.apply(1, item("a", ""), None),
        other.apply(0, item("a", ""), None),
    ]
    assert len({q for _, q in seen}) == 4
    assert draw.apply(0, item("a", "x"), None) == seen[0]


def test_a_plugin_without_modality_is_refused(monkeypatch):
    from qualm.runners.data import dataset as inputs

    monkeypatch.setattr(inputs, "get", lambda kind, name: SimpleNamespace(path="x.py", declares={}))
    with pytest.raises(StageError, match=r"x.py: MODALITY: expected one of image, text, cross, got None"):
        read_variants([{"variant": "x", "plugin": "x", "args": {}}])


def test_what_cannot_be_applied_is_none():
    never = Variant("never", "text", lambda batch, rngs: [None for _ in batch])
    assert never.apply(0, item("s", "q"), None) is None


@pytest.mark.parametrize("name", READABLE)
def test_odd_pictures_that_can_be_shown_come_as_rgb(name):
    image = decode_image(pictures()[name], "here")
    assert image.mode == "RGB" and min(image.size) >= 1
    if name.startswith("16 bits"):  # neither all white nor cut off
        assert [image.getpixel((x, 0)) for x in (0, 1, 128, 255)] == [(v, v, v) for v in (0, 1, 128, 255)]
    elif name in ("cmyk", "palette", "webp", "moving"):
        assert np.abs(np.array(image.getpixel((16, 10))) - (200, 100, 50)).max() < 40


@pytest.mark.parametrize("name", sorted(pictures().keys() - set(READABLE)))
def test_what_is_no_picture_is_named_and_never_shown(name):
    with pytest.raises(BrokenSampleError, match=r"^here: "):
        decode_image(pictures()[name], "here")


def test_pictures_of_every_kind_go_through_every_perturbation():
    for name in READABLE:
        image = decode_image(pictures()[name], "here")
        for plugin in names("perturbations"):
            found = get("perturbations", plugin)
            if found.declares["MODALITY"] == "image":
                (made,) = load("perturbations", plugin)([image], [random_generator(7, plugin, name)])
                assert (made.size, made.mode) == (image.size, "RGB"), (name, plugin)


SEVERAL = '["i0", "i1"]'


def add_noise(batch, rngs):
    """Each picture in the level that its own chance says."""
    return [PIL.Image.new("RGB", p.size, (int(rng.integers(256)),) * 3) for p, rng in zip(batch, rngs, strict=True)]


def test_several_pictures_are_perturbed_each_by_its_own_chance_the_first_as_if_alone(tmp_path):
    data = dataset(tmp_path, [png(1), png(2)], [SEVERAL, "i0"])
    several, alone = data.item(0), replace(data.item(1), sample_id="s0")
    noise = Variant("noise", "image", add_noise)
    (first, second), question = noise.perturb(7, several, several.images())
    levels = [int(random_generator(7, "noise", name).integers(256)) for name in ("s0", "s0 (2)")]
    assert [p.getpixel((0, 0))[0] for p in (first, second)] == levels and question == "q"
    assert noise.perturb(7, alone, alone.images())[0][0].tobytes() == first.tobytes()


def test_a_variant_that_one_of_the_pictures_cannot_have_does_not_apply(tmp_path):
    item = dataset(tmp_path, [png(1), png(2)], [SEVERAL]).item(0)
    second = Variant("v", "image", lambda batch, rngs: [None if p.getpixel((0, 0))[0] == 2 else p for p in batch])
    assert second.perturb(7, item, item.images()) is None
    assert Variant("c", "cross", lambda batch, rngs: batch).perturb(7, item, item.images()) is None


def test_the_text_between_marks_is_perturbed_and_the_marks_stay(tmp_path):
    item = dataset(tmp_path, [png(1), png(2)], [SEVERAL]).item(0)
    shout = Variant("shout", "text", lambda batch, rngs: [text.upper() for text in batch])
    assert shout.perturb(7, replace(item, question="Is <image> or <image>"), ())[1] == "IS <image> OR <image>"
    assert shout.perturb(7, replace(item, question="Same?"), ())[1] == "SAME?"
    mark = Variant("mark", "text", lambda batch, rngs: [f"{text} <image>" for text in batch])
    assert mark.perturb(7, replace(item, question="Is <image> or <image>"), ()) is None


def test_strangers_have_as_many_pictures_and_removal_takes_the_marks(tmp_path):
    pictures = [png(n) for n in range(6)]
    data = dataset(tmp_path, pictures, [SEVERAL, '["i2", "i3"]', "i4", "i5"])
    swapped, removed = read_variants([{"variant": f"v{p}", "picture": p} for p in ("swapped", "removed")])
    assert swapped.item(data, 0).files == (pictures[2], pictures[3]) and swapped.item(data, 2).files == (pictures[5],)
    data.samples[0]["question"] = "Is <image> like <image> ?"
    assert removed.item(data, 0).question == "Is like ?" and removed.item(data, 0).files == ()


def test_strangers_are_of_another_group(tmp_path):
    data = dataset(tmp_path, [png(n) for n in range(4)], [f"i{n}" for n in range(4)])
    data.table = data.table.set_column(data.table.schema.get_field_index("group"), "group", [["a", "a", "a", "b"]])
    assert {name: data.unrelated[name] for name in ("s0", "s1", "s2")} == {"s0": 3, "s1": 3, "s2": 3} and data.unrelated["s3"] < 3


def test_what_takes_one_picture_says_so_of_several(tmp_path):
    data = dataset(tmp_path, [png(1), png(2)], [SEVERAL])
    assert data.files(0) == (png(1), png(2))
    with pytest.raises(BrokenSampleError, match="expected one image, got 2; leave out samples with several"):
        data.encoded(0)
