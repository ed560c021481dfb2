"""Videos as images: some frames at even distances, out of an animated image, a film, or a folder of frames.

Of N frames in the order in which they are shown, numbered from 0, n are taken: frame floor((2k + 1) N / 2n) for k = 0..n-1, the middles
of n parts of one length; of fewer than n all. Nothing is random. Frames of animated images (GIF, WebP, APNG) are composed by Pillow as
a browser shows them; films are decoded by PyAV (extra `video`); both come out as PNG. Frames in a folder are its images in the order of
their names, numbers in them read as numbers, and stay the files that they are.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qualm.registry.formats.pictures import HugePictureError, PictureError, as_rgb, is_image_name, open_image

MAX_FRAMES = 100_000
"""Most frames of one video or folder; longer ones are attacks, or should be cut first."""
MAX_ANIMATED = 5_000
"""Most frames of an animated image, whose frames are composed one after another."""
MAX_PIXELS = 40_000_000
FILMS = {".mp4", ".mkv", ".webm", ".mov", ".avi", ".m4v", ".mpg", ".mpeg"}


class FramesError(Exception):
    """Error of a video that cannot be read, in one line; the caller names the video."""


def frame_positions(total: int, n: int) -> list[int]:
    """Return `n` evenly spaced positions from 0 below `total`; all if `total` <= n.

    >>> frame_positions(100, 4), frame_positions(3, 8)
    ([12, 37, 62, 87], [0, 1, 2])
    """
    return list(range(total)) if total <= n else [(2 * k + 1) * total // (2 * n) for k in range(n)]


def read_frames(path: Path, n: int) -> list[tuple[int, bytes]]:
    """Return (frame index, image bytes) of up to `n` evenly spaced frames; else FramesError."""
    if path.is_dir():
        return _folder_frames(path, n)
    return _film_frames(path, n) if path.suffix.lower() in FILMS else frames_of_animation(path.read_bytes(), n)


def frames_of_animation(data: bytes, n: int) -> list[tuple[int, bytes]]:
    """Return (frame index, PNG bytes) of up to `n` evenly spaced frames; else FramesError."""
    try:
        with open_image(io.BytesIO(data)) as picture:
            total = int(getattr(picture, "n_frames", 1))
            if total > MAX_ANIMATED:
                raise FramesError(f"{total:,} frames; of an animated image at most {MAX_ANIMATED:,} are read: make a film of it")
            _check_size(picture.width, picture.height)
            taken = []
            for place in frame_positions(total, n):
                picture.seek(place)
                taken.append((place, _png(as_rgb(picture))))
            return taken
    except HugePictureError as error:
        raise FramesError(f"too large to be shown to a model: {error}; scale it down") from error
    except PictureError as error:
        raise FramesError(f"cannot be decoded: {error}") from error


def _folder_frames(folder: Path, n: int) -> list[tuple[int, bytes]]:
    names = sorted((p for p in folder.iterdir() if is_image_name(p.name) and p.is_file() and not p.is_symlink()), key=_by_number)
    if not names:
        raise FramesError("expected a folder of frames, found no image in it")
    if len(names) > MAX_FRAMES:
        raise FramesError(f"{len(names):,} frames; at most {MAX_FRAMES:,} are read: leave some out")
    return [(place, names[place].read_bytes()) for place in frame_positions(len(names), n)]


def _by_number(path: Path) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", path.name)]


def _film_frames(path: Path, n: int) -> list[tuple[int, bytes]]:
    """Return (frame index, PNG bytes) of up to `n` evenly spaced frames; else FramesError."""
    try:
        import av
    except ImportError:
        line = "films are decoded by PyAV, which is not installed: `pip install 'qualm-bench[video]'`"
        raise FramesError(f"{line}; or give an animated image or a folder of frames") from None
    try:
        total = sum(1 for _ in _decode_frames(av, path))
        places_taken = set(frame_positions(total, n))
        taken = [(place, _png(frame.to_image())) for place, frame in enumerate(_decode_frames(av, path)) if place in places_taken]
    except (av.FFmpegError, OSError, ValueError, MemoryError) as error:
        raise FramesError(f"cannot be decoded: {' '.join(str(error).split())}") from error
    if not taken:
        raise FramesError("expected a film, found no frame in it")
    return taken


def _decode_frames(av: Any, path: Path) -> Iterator[Any]:
    with av.open(str(path)) as film:
        if not film.streams.video:
            raise FramesError("expected a film, found no images in it")
        for place, frame in enumerate(film.decode(video=0)):
            if place >= MAX_FRAMES:
                raise FramesError(f"more than {MAX_FRAMES:,} frames; cut the film first")
            _check_size(frame.width, frame.height)
            yield frame


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise FramesError(f"frames of {width} × {height}; at most {MAX_PIXELS:,} pixels are read: scale them down")


def _png(picture: Any) -> bytes:
    with io.BytesIO() as file:
        picture.save(file, "PNG", compress_level=3)
        return file.getvalue()
