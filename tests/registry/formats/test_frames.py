"""Which frames of a video are taken, out of animated pictures, films and folders."""

import io

import pytest
from PIL import Image

from qualm.registry.formats import frames
from qualm.registry.formats.frames import FramesError, frame_positions, frames_of_animation, read_frames


def drawn(level):
    return Image.new("RGB", (8, 6), (level, 0, 0))


def animation(kind, levels):
    data = io.BytesIO()
    first, *rest = map(drawn, levels)
    first.save(data, kind, save_all=True, append_images=rest, duration=40, **({"lossless": True} if kind == "WEBP" else {}))
    return data.getvalue()


def level(data):
    return Image.open(io.BytesIO(data)).convert("RGB").getpixel((3, 3))[0]


def test_places_are_the_middles_of_equal_parts():
    assert (
        frame_positions(10, 2) == [2, 7]
        and frame_positions(7, 3) == [1, 3, 5]
        and frame_positions(2, 8) == [0, 1]
        and frame_positions(8, 8) == list(range(8))
    )
    for total in range(1, 40):
        for n in range(1, 20):
            taken = frame_positions(total, n)
            assert len(taken) == min(n, total) and taken == sorted(set(taken)) and taken[-1] < total


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_animated_pictures(kind):
    levels = [10, 60, 110, 160, 210, 250]
    taken = frames_of_animation(animation(kind, levels), 3)
    assert [place for place, _ in taken] == [1, 3, 5] and [level(data) for _, data in taken] == [60, 160, 250]
    assert frames_of_animation(animation(kind, levels), 3) == taken


def test_a_still_picture_is_its_one_frame(tmp_path):
    drawn(9).save(tmp_path / "a.png")
    assert [(place, level(data)) for place, data in read_frames(tmp_path / "a.png", 8)] == [(0, 9)]


def test_frames_in_a_folder_are_in_the_order_of_their_numbers_and_stay_as_they_are(tmp_path):
    for number in (1, 2, 10, 11):
        drawn(number).save(tmp_path / f"frame{number}.png")
    (tmp_path / "notes.txt").write_text("none")
    taken = read_frames(tmp_path, 2)
    assert [(place, level(data)) for place, data in taken] == [(1, 2), (3, 11)]
    assert taken[0][1] == (tmp_path / "frame2.png").read_bytes()


def test_films(tmp_path):
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "a.mp4"), "w") as film:
        stream = film.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for shade in range(0, 250, 25):
            frame = av.VideoFrame.from_image(Image.new("RGB", (32, 32), (shade,) * 3))
            film.mux(stream.encode(frame))
        film.mux(stream.encode())
    taken = read_frames(tmp_path / "a.mp4", 2)
    assert [place for place, _ in taken] == [2, 7] and [level(data) for _, data in taken] == pytest.approx([50, 175], abs=6)


@pytest.mark.parametrize(("name", "data"), [("a.gif", b"GIF89a"), ("a.png", b""), ("a.mp4", b"not a film")])
def test_what_cannot_be_read_is_said(tmp_path, name, data):
    if name == "a.mp4":
        pytest.importorskip("av")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FramesError, match=r"^cannot be decoded: "):
        read_frames(tmp_path / name, 2)


def test_bounds(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FramesError, match="found no image in it"):
        read_frames(tmp_path / "empty", 2)
    monkeypatch.setattr(frames, "MAX_ANIMATED", 3)
    monkeypatch.setattr(frames, "MAX_PIXELS", 48)
    assert len(frames_of_animation(animation("GIF", [1, 100, 200]), 3)) == 3, "as many as may be"
    monkeypatch.setattr(frames, "MAX_ANIMATED", 2)
    with pytest.raises(FramesError, match="3 frames; of an animated image at most 2"):
        frames_of_animation(animation("GIF", [1, 100, 200]), 2)
    monkeypatch.setattr(frames, "MAX_PIXELS", 40)
    with pytest.raises(FramesError, match="frames of 8 × 6; at most 40"):
        frames_of_animation(animation("GIF", [1, 100]), 2)
    for name in ("b.png", "a.png"):
        drawn(1).save(tmp_path / "empty" / name)
    monkeypatch.setattr(frames, "MAX_FRAMES", 2)
    assert len(read_frames(tmp_path / "empty", 2)) == 2
    monkeypatch.setattr(frames, "MAX_FRAMES", 1)
    with pytest.raises(FramesError, match="2 frames; at most 1 are read"):
        read_frames(tmp_path / "empty", 2)


def test_names_without_numbers_come_behind_those_that_begin_with_one(tmp_path):
    for name in ("b.png", "10.PNG", "9.png", "a2.png", "a10.png", "c.gif"):
        drawn(1).save(tmp_path / name)
    (tmp_path / "d.png").symlink_to(tmp_path / "9.png")
    assert [path.name for path in sorted(tmp_path.iterdir(), key=frames._by_number)][:5] == [
        "9.png",
        "10.PNG",
        "a2.png",
        "a10.png",
        "b.png",
    ]
    assert len(read_frames(tmp_path, 9)) == 6


def test_a_film_without_its_library_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    (tmp_path / "a.mp4").write_bytes(b"")
    with pytest.raises(FramesError, match=r"pip install 'qualm-bench\[video\]'"):
        read_frames(tmp_path / "a.mp4", 2)
