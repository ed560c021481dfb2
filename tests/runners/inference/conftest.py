"""Tiny models that several modules read: each is made and loaded once."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from qualm.runners.inference.hf.model import HfVlm
from tests.support.models.loaded import loaded_model
from tests.support.models.tiny_models import FAMILIES, PLAIN, TEMPLATES


@pytest.fixture(scope="session")
def family_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function of a family's name that gives the folder of its model; do not write there."""
    return cache(lambda family: {**FAMILIES, **PLAIN}[family](tmp_path_factory.mktemp(family)))


@pytest.fixture(scope="session")
def family_model(family_folder: Callable[[str], Path]) -> Callable[[str], HfVlm]:
    """Return a function of a family's name that gives its loaded model; leave the model as it was."""
    return cache(lambda family: loaded_model(family_folder(family), family, template=TEMPLATES.get(family)))
