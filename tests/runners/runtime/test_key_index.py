"""The index of keys: of equal keys the first counts, and keys that begin alike are told apart."""

import numpy as np
import pyarrow as pa

from qualm.runners.runtime.key_index import KeyIndex, copy_key_words


def column(keys):
    return pa.chunked_array([pa.array(keys, pa.binary(32))])


def test_places():
    rng = np.random.default_rng(1)
    one, two, begun = rng.bytes(32), rng.bytes(32), rng.bytes(8)
    alike = [begun + rng.bytes(24) for _ in range(5)]
    index = KeyIndex([copy_key_words(column([one, *alike[:3]])), copy_key_words(column([two, one, *alike[3:]]))])
    first = 1 << 32
    assert index.find([one, two, *alike, bytes(32), begun + bytes(24)]).tolist() == [0, first, 1, 2, 3, first + 2, first + 3, -1, -1]
    assert index.count() == 7
    index.add(column([one, bytes(32), bytes(32)]), 2)
    assert index.find([one, bytes(32)]).tolist() == [0, (2 << 32) + 1] and index.count() == 8


def test_words_are_of_the_rows_that_a_slice_has():
    keys = [bytes([i]) * 32 for i in range(5)]
    assert copy_key_words(column(keys).slice(2, 2)).tobytes() == b"".join(keys[2:4])
