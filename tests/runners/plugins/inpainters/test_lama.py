"""With a small scripted module of LaMa's interface: it paints the mean of what is known, and marks what it was given."""

import hashlib

import numpy as np
import pytest
import torch

from qualm.runners.contracts.pairs import PairError
from qualm.runners.plugins.inpainters.lama import _Lama, lama, padded
from tests.support.data.targets import context, hole, job, noise


class Mean(torch.nn.Module):
    def forward(self, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        known = 1 - mask
        mean = (image * known).sum((2, 3), keepdim=True) / known.sum((2, 3), keepdim=True).clamp(min=1)
        return image * known + mean * mask


class Odd(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.how == "shape":
            return image[:, :, 1:]
        if self.how == "size":  # a grey level for the width it was given
            return torch.ones_like(image) * (image.shape[3] / 255.0)
        if self.how == "mask":
            return mask.expand_as(image) * 0.5
        return image * float("nan")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def saved(tmp_path, module=None, name="big-lama.pt"):
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    torch.jit.script(module or Mean()).save(str(folder / name))
    return {"artifact": str(folder), "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()}


def test_the_mask_is_painted_and_nothing_else(tmp_path):
    picture, mask = noise(30, 21), hole(30, 21)
    (made,) = lama(context(), **saved(tmp_path))([job(picture, mask)])
    pixels, out = np.asarray(picture), np.asarray(made)
    assert made.size == picture.size and (out[~mask] == pixels[~mask]).all()
    # the mean is that of the mirrored picture: 32 x 24
    image, full = padded(pixels.transpose(2, 0, 1).astype(np.float64), 8), padded(mask[None].astype(np.float64), 8)
    expected = [(image[c] * (1 - full[0])).sum() / (1 - full[0]).sum() for c in range(3)]
    np.testing.assert_allclose(out[mask].mean(0), expected, atol=0.51)


def test_pictures_are_mirrored_to_a_multiple_and_cut_back(tmp_path):
    mask = hole(30, 21)
    (made,) = lama(context(), **saved(tmp_path, Odd("size")))([job(noise(30, 21), mask)])
    assert made.size == (30, 21) and (np.asarray(made)[mask] == 32).all()
    assert padded(np.arange(6).reshape(1, 2, 3), 4)[0].tolist() == [[0, 1, 2, 2], [3, 4, 5, 5], [3, 4, 5, 5], [0, 1, 2, 2]]
    assert padded(np.zeros((3, 16, 8)), 8).shape == (3, 16, 8)
    assert padded(np.zeros((3, 1, 1)), 8).shape == (3, 8, 8)


def test_the_mask_is_binary(tmp_path):
    mask = hole(16, 16)
    (made,) = lama(context(), **saved(tmp_path, Odd("mask")))([job(noise(16, 16), mask)])
    assert (np.asarray(made)[mask] == 128).all()  # half of one, rounded


def test_neither_neighbours_nor_threads_matter_and_results_are_kept(tmp_path, monkeypatch):
    model = saved(tmp_path)
    jobs = [job(noise(20 + i, 17, i), hole(20 + i, 17)) for i in range(4)]
    made = [p.tobytes() for p in lama(context(), **model)(jobs)]
    monkeypatch.setattr(_Lama, "_run", lambda *_: pytest.fail("made again"))
    assert [lama(context(), **model)([j])[0].tobytes() for j in jobs] == made
    with pytest.raises(pytest.fail.Exception, match="made again"):
        lama(context(), **model)([job(jobs[0].picture, ~jobs[0].mask)])


def test_what_was_painted_before_a_failure_is_not_painted_again(tmp_path, monkeypatch):
    model = saved(tmp_path)
    jobs = [job(noise(17, 17, i), hole(17, 17)) for i in range(5)]
    run, painted = _Lama._run, []

    def dies_at_the_fourth(self, picture, mask):
        painted.append(picture.tobytes())
        if len(painted) == 4:
            raise MemoryError("no more")
        return run(self, picture, mask)

    monkeypatch.setattr(_Lama, "_run", dies_at_the_fourth)
    with pytest.raises(MemoryError):
        lama(context(), **model)(jobs)
    assert len(lama(context(), **model)(jobs)) == 5
    assert painted == [j.picture.tobytes() for j in [*jobs[:4], *jobs[3:]]]


def test_no_file_is_loaded_that_is_not_the_one_named(tmp_path, monkeypatch):
    model = saved(tmp_path)
    monkeypatch.setattr(torch.jit, "load", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(PairError, match=r"expected SHA-256 0000.*, got [0-9a-f]{64}; loading a TorchScript file runs its code"):
        lama(context(), artifact=model["artifact"], sha256="0" * 64)
    inpaint = lama(context(), **model)
    next((tmp_path / "model").iterdir()).write_bytes(b"another program")
    with pytest.raises(PairError, match="was changed while this ran"):
        inpaint([job(noise(8, 8), hole(8, 8, 1, 1, 3))])


def test_what_is_no_lama_is_refused(tmp_path):
    for how, said in (("shape", "expected an image of shape"), ("nan", "values that are not numbers")):
        with pytest.raises(PairError, match=said):
            lama(context(), **saved(tmp_path, Odd(how)))([job(noise(16, 16), hole(16, 16))])
    text = tmp_path / "text"
    text.mkdir()
    (text / "a.pt").write_text("no program")
    with pytest.raises(PairError, match="not a TorchScript file"):
        lama(context(), artifact=str(text), sha256=hashlib.sha256(b"no program").hexdigest())([job(noise(16, 16), hole(16, 16))])
    for name in ("e.pth", "d.pt", "b.pt", "c.pth", "readme.md"):
        (text / name).write_text("one more")
    with pytest.raises(PairError, match=r"expected one TorchScript file .*, found a\.pt, b\.pt, c\.pth, d\.pt, e\.pth;"):
        lama(context(), artifact=str(text), sha256="")
