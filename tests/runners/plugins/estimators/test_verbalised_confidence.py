import numpy as np
import pytest

from qualm.runners.plugins.estimators.verbalised_confidence import verbalised_confidence


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("85", 0.15), ("85%", 0.15), (" 85 percent. ", 0.15), ("about 85", 0.15), ("0", 1.0), ("100", 0.0), ("99.5%", 0.005),
        ("", np.nan), ("sure", np.nan), ("101", np.nan), ("-5", np.nan), ("80 or 90", np.nan), ("8" * 400, np.nan), ("٨٥x", np.nan),
        ("I am 85 years old", np.nan),
    ],
)  # fmt: skip
def test_only_a_number_is_read(reply, value):
    np.testing.assert_allclose(verbalised_confidence([reply]), [value], atol=1e-12)
