"""LaMa (Suvorov et al., WACV 2022), loaded as TorchScript, the usual form of `big-lama`.

It is called with an image (1, 3, H, W) and a mask (1, 1, H, W), both float32 in [0, 1], and returns an image of that shape. Loading a
TorchScript file runs its code, so the spec must name the SHA-256 of the file.
"""

from __future__ import annotations

import hashlib
import io
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge

from qualm.runners.contracts.inpainters import Inpainter, Job
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.runtime.blobs import BlobCache
from qualm.runners.runtime.code_digest import engine_digest

if TYPE_CHECKING:
    import PIL.Image

    from qualm.registry.plugins.registry import Artifact

CITES = ["suvorov2022resolution"]
EXTRA = "models"


def lama(context: PairContext, *, artifact: Artifact, sha256: str, multiple: Annotated[int, Ge(1)] = 8) -> Inpainter:
    """Return an inpainter (jobs -> images) by a LaMa TorchScript file, whose code is run.

    Args:
        artifact: the entry of registry/data/ that holds the file (one *.pt or *.pth in it).
        sha256: of the file, 64 hexadecimal digits (`sha256sum big-lama.pt`).
        multiple: images are mirrored at the right and the bottom to a multiple of this many pixels, and cropped afterwards.

    Raises:
        PairError: no such file, or one of another digest.
    """
    return _Lama(context, Path(artifact), sha256.lower(), multiple)


class _Lama:
    def __init__(self, context: PairContext, place: Path, sha256: str, multiple: int) -> None:
        self.settings, self.multiple = context.settings, multiple
        self.file, self.sha256 = _file(place), sha256
        with self.file.open("rb") as handle:  # read here, though loaded later: a kept image must be of this very model
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        if digest != sha256:
            raise PairError(
                f"{self.file}: expected SHA-256 {sha256}, got {digest}; loading a TorchScript file runs its code, "
                "so set sha256 to this only if you know where the file is from"
            )
        self.cache = BlobCache("lama", engine_digest(__name__), sha256, multiple)
        self._lock = threading.Lock()
        self._model: Any = None

    def __call__(self, jobs: Sequence[Job]) -> list[PIL.Image.Image]:
        return [self._paint(job) for job in jobs]

    def _paint(self, job: Job) -> PIL.Image.Image:
        import PIL.Image

        picture = np.asarray(job.picture)
        key = self.cache.key(picture.shape, _digest(picture), _digest(job.mask))
        raw = self.cache.get(key)
        if raw is None:
            with self._lock:
                raw = self._run(picture, job.mask).tobytes()
            self.cache.put(key, raw)
        return PIL.Image.fromarray(np.frombuffer(raw, np.uint8).reshape(picture.shape))

    def _run(self, picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
        import torch

        model, device = self._load()
        height, width = mask.shape
        image = padded(picture.transpose(2, 0, 1).astype(np.float32) / 255, self.multiple)
        hole = padded((mask > 0)[None].astype(np.float32), self.multiple)
        with torch.inference_mode():
            out = model(torch.from_numpy(image)[None].to(device), torch.from_numpy(hole)[None].to(device))
        if not isinstance(out, torch.Tensor) or out.shape != (1, *image.shape):
            got = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise PairError(f"{self.file}: expected an image of shape {(1, *image.shape)} back, got {got}; is it LaMa's TorchScript?")
        painted = out[0].float().cpu().numpy()[:, :height, :width].transpose(1, 2, 0)
        if not np.isfinite(painted).all():
            raise PairError(f"{self.file}: painted values that are not numbers, of an image of {width} x {height}")
        levels = np.clip(np.rint(painted * 255), 0, 255).astype(np.uint8)
        return np.where(mask[..., None], levels, picture)

    def _load(self) -> tuple[Any, str]:
        from qualm.runners.inference.devices import torch_device

        device = torch_device(self.settings.device)
        if self._model is None:
            import torch

            data = self.file.read_bytes()
            if hashlib.sha256(data).hexdigest() != self.sha256:
                raise PairError(f"{self.file}: was changed while this ran; it no longer has the SHA-256 {self.sha256}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                try:
                    self._model = torch.jit.load(io.BytesIO(data), map_location=device).eval()  # type: ignore[no-untyped-call]
                except RuntimeError as error:
                    raise PairError(f"{self.file}: not a TorchScript file: {str(error).splitlines()[0]}") from error
        return self._model, device


def padded(planes: np.ndarray, multiple: int) -> np.ndarray:
    """Return planes (channels, height, width) mirrored at right and bottom to a multiple."""
    _, height, width = planes.shape
    return np.pad(planes, ((0, 0), (0, -height % multiple), (0, -width % multiple)), mode="symmetric")


def _file(place: Path) -> Path:
    if place.is_file():
        return place
    files = sorted(p for p in place.glob("*") if p.suffix in (".pt", ".pth"))
    if len(files) != 1:
        names = ", ".join(p.name for p in files) or "none"
        raise PairError(f"{place}: expected one TorchScript file (*.pt or *.pth), found {names}; `dvc pull {place}.dvc` may bring it")
    return files[0]


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
