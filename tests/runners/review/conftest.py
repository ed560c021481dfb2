"""A pool of twelve questions in six pairs, of two categories."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.runners.review.pool import Pool, read_pool
from tests.support.data.tiny_pairs import write_pairs


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    recipe, source = write_pairs(tmp_path)
    return read_pool([recipe], [source])
