"""All families of small models, for tests of each."""

import pytest

from tests.support.models.tiny_models import FAMILIES

DISTINCT = {"gemma3", "idefics3", "kosmos2", "llava", "paligemma", "qwen2_vl"}
EACH_FAMILY = [pytest.param(name, marks=() if name in DISTINCT else pytest.mark.slow) for name in sorted(FAMILIES)]
"""Names of all families; those that place images as a distinct one does are left to the slow tests."""
