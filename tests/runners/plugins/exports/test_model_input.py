import io
from contextlib import chdir
from pathlib import Path

import PIL.Image
import pytest

from qualm.registry.formats.pictures import media_type
from qualm.registry.sample import IMAGES, SAMPLES, Sample
from qualm.runners.contracts.models import ModelError
from qualm.runners.data.dataset import Variant
from qualm.runners.data.rows import as_row
from qualm.runners.plugins.exports._model_input import ModelInput, prompts
from qualm.runners.plugins.exports._parts import ExportEntry, ExportError, ExportPart
from qualm.runners.plugins.models import recorded
from qualm.runners.runtime.records import write_table


def jpeg():
    data = io.BytesIO()
    PIL.Image.new("RGB", (8, 6), (10, 20, 30)).save(data, "JPEG")
    return data.getvalue()


@pytest.fixture
def seen(tmp_path):
    samples = [Sample(sample_id="a", question="Q a?", image_id="i"), Sample(sample_id="b", question="Q b?")]
    rows = [as_row(sample) for sample in samples]
    write_table(tmp_path / "samples.parquet", rows, SAMPLES)
    write_table(tmp_path / "images" / "00000.parquet", [{"image_id": "i", "image": {"bytes": jpeg(), "path": "i.jpg"}}], IMAGES)

    def make(variant):
        shown = ModelInput(ExportPart("m", "d", variant, 7, tmp_path, tmp_path))
        return shown, [ExportEntry(i, row, "", []) for i, row in enumerate(rows)]

    with chdir(tmp_path):
        yield make


def black(batch, rngs):
    return [PIL.Image.new("RGB", image.size) for image in batch]


def shout(batch, rngs):
    return [None if "b" in text else text.upper() for text in batch]


def test_a_clean_sample_is_shown_as_it_lies_there(seen):
    shown, (first, second) = seen(Variant("clean"))
    assert shown.question(0, first.sample) == "Q a?" and shown.pictures(first) == (jpeg(),) and shown.pictures(second) == ()
    assert shown.key(first) == "i" and shown.key(second) is None


def test_a_perturbed_picture_is_made_again_as_png(seen):
    shown, (first, second) = seen(Variant("black", "image", black))
    (made,) = shown.pictures(first)
    assert media_type(made) == "image/png" and PIL.Image.open(io.BytesIO(made)).getpixel((0, 0)) == (0, 0, 0)
    assert shown.question(0, first.sample) == "Q a?" and shown.pictures(second) == () and shown.key(first) == "i\0a"


def test_a_perturbed_question_is_made_again_and_one_that_cannot_be_is_an_error(seen):
    shown, (first, second) = seen(Variant("shout", "text", shout))
    assert shown.question(0, first.sample) == "Q A?"
    with pytest.raises(ExportError, match="there is an answer to 'b' under shout, which cannot be applied to it"):
        shown.question(1, second.sample)


def part(folder, **changes):
    return ExportPart(
        **{"model": "m", "dataset": "d", "variant": Variant("clean"), "seed": 7, "samples": folder, "generations": folder, **changes}
    )


class Log:
    def prompts(self, dataset, samples):
        return {"s": f"prompt of {dataset}, {samples.num_rows} samples"}


@pytest.fixture
def folder(tmp_path):
    write_table(tmp_path / "samples.parquet", [], SAMPLES)
    return tmp_path


def test_prompts_are_the_logs_own(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(recorded, "recorded", lambda context, **args: opened.append((context.folder, args)) or Log())
    assert prompts(part(folder, recorded={"run": "x"}, source=folder)) == {"s": "prompt of d, 0 samples"}
    assert opened == [(folder, {"run": "x"})]


def test_there_are_none_of_a_model_that_was_asked_here_or_a_log_that_is_gone_or_keeps_none(folder, monkeypatch):
    monkeypatch.setattr(recorded, "recorded", lambda context, **args: object())
    gone = part(folder, recorded={}, source=Path("gone"))
    assert [prompts(p) for p in (part(folder), part(folder, recorded={}), gone, part(folder, recorded={}, source=folder))] == [{}] * 4


def test_a_log_that_cannot_be_read_keeps_none(folder, monkeypatch):
    def fails(context, **args):
        raise ModelError("broken")

    monkeypatch.setattr(recorded, "recorded", fails)
    assert prompts(part(folder, recorded={}, source=folder)) == {}
