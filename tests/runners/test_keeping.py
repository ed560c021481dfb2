import threading

from runners.keeping import Kept


def test_what_is_kept_is_found_by_all_it_depends_on(tmp_path):
    kept = Kept("masks", "model", 0.3, root=tmp_path)
    key = kept.key("pixels", [1, 2])
    assert kept.get(key) is None
    kept.put(key, b"data")
    assert Kept("masks", "model", 0.3, root=tmp_path).get(key) == b"data"
    others = [Kept("masks", "model", 0.4, root=tmp_path).key("pixels", [1, 2]), kept.key("pixels", [1, 3])]
    assert all(kept.get(other) is None for other in others)
    assert Kept("pictures", "model", 0.3, root=tmp_path).get(key) is None


def test_a_damaged_file_is_as_good_as_absent(tmp_path, capsys):
    kept = Kept("masks", root=tmp_path)
    key = kept.key("a")
    kept.put(key, b"0123456789")
    (file,) = [p for p in tmp_path.rglob("*") if p.is_file()]
    for damaged in (file.read_bytes()[:-1], b"", b"x" + file.read_bytes()):
        file.write_bytes(damaged)
        assert kept.get(key) is None
    assert "fails its checksum" in capsys.readouterr().err
    kept.put(key, b"new")
    assert kept.get(key) == b"new"


def test_many_writers_leave_one_whole_file(tmp_path):
    kept = Kept("masks", root=tmp_path)
    key = kept.key("a")
    threads = [threading.Thread(target=kept.put, args=(key, b"x" * 10_000)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert kept.get(key) == b"x" * 10_000
    assert sum(p.is_file() for p in tmp_path.rglob("*")) == 1
