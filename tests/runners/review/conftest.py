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


@pytest.fixture(scope="session")
def gradio() -> None:
    """Skip without gradio; only the process that runs such a test spends the seconds that its import takes."""
    pytest.importorskip("gradio", reason="pages need the extra `pages`")
