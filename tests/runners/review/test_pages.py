"""What all pages share: pictures are drawn anew, and errors say what to do."""

import base64
import io
import socket

import PIL.Image
import pytest

from qualm.runners.reporting.thumbnails import decoded
from qualm.runners.review.pages import PageError, data_uri, picture, serve, trouble
from tests.support.data.tiny_pairs import png


def test_pictures_are_drawn_anew_or_left_out() -> None:
    assert picture(png("red")).startswith("data:image/png;base64,")
    for data in (None, b"GIF89a not really", b"<svg onload=alert(1)>"):
        assert picture(data) == ""


def test_large_pictures_are_made_smaller() -> None:
    large = PIL.Image.new("RGB", (2400, 600), "red")
    assert data_uri(large).startswith("data:image/jpeg;base64,") and large.size == (2400, 600)
    for width, longest, kind, size in ((320, 1000, "png", (320, 80)), (324, 1000, "jpeg", (324, 81)), (2400, 1000, "jpeg", (1000, 250)),
                                       (2400, 640, "jpeg", (640, 160)), (640, 640, "jpeg", (640, 160))):  # fmt: skip
        head, data = data_uri(PIL.Image.new("RGB", (width, width // 4), "red"), longest).split(",")
        drawn = PIL.Image.open(io.BytesIO(base64.b64decode(data)))
        assert head == f"data:image/{kind};base64" and (drawn.format, drawn.size) == (kind.upper(), size)
    data = io.BytesIO()
    PIL.Image.new("1", (9000, 8000)).save(data, "PNG")
    assert picture(data.getvalue()) == "" and decoded(data.getvalue()) == (None, "image too large to show (9000 × 8000)")


def test_what_stands_in_the_place_of_a_page_is_text() -> None:
    assert trouble("<b>\u202e gone") == '<p class="told" role="status">&lt;b&gt;⟨U+202E⟩ gone</p>'


def test_a_port_that_is_taken_is_said(tmp_path) -> None:
    gradio = pytest.importorskip("gradio", reason="pages need the extra `pages`")
    for kind in ("css", "js"):
        (tmp_path / f"page.{kind}").write_text("")

    def build(library):
        with library.Blocks(analytics_enabled=False) as blocks:
            library.HTML("hello")
        return blocks

    first = serve(build, tmp_path)
    try:
        assert first.url.startswith("http://127.0.0.1:")
        with pytest.raises(PageError, match="give another with --port"):
            serve(build, tmp_path, first.port)
    finally:
        first.close()
    assert gradio.__version__
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", first.port), timeout=10)
