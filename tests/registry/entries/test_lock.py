import pytest

from qualm.registry.entries.lock import FILE, FetchError, Pin, read, write


def test_pins_stand_beside_each_other(tmp_path):
    assert read(tmp_path) == {}
    first, second = Pin("hub:a/b", "c" * 40, {"x": "1"}), Pin("https://x", "")
    write(tmp_path, {"b": first})
    write(tmp_path, {"a": second})
    assert read(tmp_path) == {"a": second, "b": first}
    before = (tmp_path / FILE).read_bytes()
    write(tmp_path, {"b": first})
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 1}', '{"a": {"source": "x"}}', '{"a": {"source": "x", "revision": "", "sha256": {"y": 1}}}']
)
def test_a_damaged_lock(tmp_path, text):
    (tmp_path / "registry").mkdir()
    (tmp_path / FILE).write_text(text)
    with pytest.raises(FetchError, match=r"damaged .*restore it from git"):
        read(tmp_path)
