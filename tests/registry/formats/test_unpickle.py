import datetime
import os
import pickle

import numpy as np
import pytest

from qualm.registry.formats.unpickle import UnpickleError, read_pickle


def written(tmp_path, value, protocol=4):
    path = tmp_path / "x.pkl"
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
    return path


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i1", "i8", "u2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_numbers(tmp_path, dtype, order):
    array = np.asarray(np.arange(12).reshape(3, 4), dtype=dtype, order=order)
    (found,) = read_pickle(written(tmp_path, [array]))
    np.testing.assert_array_equal(np.asarray(found), array)
    assert np.asarray(found).dtype.newbyteorder("=") == array.dtype.newbyteorder("=")


def test_plain_values_and_scalars(tmp_path):
    value = {"a": [1, 2.5, "x", None, True, (1,), b"y"]}
    assert read_pickle(written(tmp_path, value)) == value
    assert read_pickle(written(tmp_path, np.float64(2.5))) == 2.5


class Runs:
    def __reduce__(self):
        return os.system, ("touch /tmp/should-not-exist-qualm",)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Runs(), "posix.system"),
        (datetime.date(2020, 1, 1), "datetime.date"),
        (np.ma.array([1, 2]), "numpy.ma"),
        (np.array([1, "a"], dtype=object), "dtype"),
        (np.array(["a"]), "dtype"),
        (np.zeros(2, dtype=[("a", "i4")]), "dtype"),
        (b"\x80\x04Pabc\n.", "outside itself"),
        (b"cbuiltins\neval\n(V1+1\ntR.", "builtins.eval"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(cbuiltins\nobject\ntR.", "builtins.object"),
    ],
)
def test_anything_else_is_refused_by_name(tmp_path, value, named):
    with pytest.raises(UnpickleError, match="refused") as error:
        read_pickle(written(tmp_path, value))
    assert named in str(error.value)
    assert "x.pkl" in str(error.value)
    assert not os.path.exists("/tmp/should-not-exist-qualm")  # noqa: PTH110


@pytest.mark.parametrize("cut", [0, 1, 10, 50, 100, -1])
def test_truncated(tmp_path, cut):
    whole = pickle.dumps([{"a": np.arange(20.0)}] * 2, 4)
    with pytest.raises(UnpickleError, match="truncated or corrupt pickle"):
        read_pickle(written(tmp_path, whole[:cut]))


def test_corrupt(tmp_path):
    rng = np.random.default_rng(0)
    whole = pickle.dumps([{"a": np.arange(20.0), "b": "text"}], 4)
    for _ in range(500):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(0, 256)
        try:
            read_pickle(written(tmp_path, bytes(damaged)))
        except UnpickleError:
            continue


def test_an_array_with_other_bytes_than_its_shape(tmp_path):
    whole = pickle.dumps(np.arange(3, dtype="i1"), 4).replace(b"K\x03\x85", b"K\x09\x85")
    with pytest.raises(UnpickleError, match="corrupt"):
        read_pickle(written(tmp_path, whole))


def test_memory_is_not_allocated_on_the_files_word(tmp_path):
    import tracemalloc

    tracemalloc.start()
    read_pickle(written(tmp_path, b"\x80\x02K\x01r" + (2**27).to_bytes(4, "little") + b"."))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_missing_and_too_large(tmp_path):
    with pytest.raises(UnpickleError, match="No such file"):
        read_pickle(tmp_path / "none.pkl")
    with pytest.raises(UnpickleError, match="are not opened"):
        read_pickle(written(tmp_path, list(range(100))), max_bytes=50)
