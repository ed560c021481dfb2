from pathlib import Path
from typing import Any

import yaml

from tests.bench.real_model_pages import BLINK_PUBLISHED, MATHVISTA_PUBLISHED, MMMU_PRO_PUBLISHED, ties

SPECS = Path(__file__).parents[2] / "specs"


def ranked(name: str, low: int, high: int, best: bool = False, tied: bool = False) -> dict[str, Any]:
    return {"candidate": name, "rank_low": low, "rank_high": high, "is_best": best, "may_be_best": best or tied}


def test_ties_name_the_models_that_may_be_best() -> None:
    rows = [ranked("a", 1, 2, tied=True), ranked("b", 1, 2, tied=True), ranked("c", 3, 3)]
    assert ties(rows) == "2 models are tied for best (a, b); 1 of 3 ranks are certain; the median model has 2 possible ranks"
    assert ties([ranked("a", 1, 1, best=True), ranked("b", 2, 2)]).startswith("a is significantly better than all others; 2 of 2 ranks")


def test_every_model_of_the_specs_has_its_published_value() -> None:
    published = {"blink": BLINK_PUBLISHED, "mathvista": MATHVISTA_PUBLISHED, "mmmu_pro": MMMU_PRO_PUBLISHED}
    for name, values in published.items():
        models = yaml.safe_load((SPECS / f"real_models_{name}.yaml").read_text(encoding="utf-8"))["models"]
        assert models.keys() == values.keys()
