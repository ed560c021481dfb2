import json
from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from qualm.registry.sample import SAMPLES, Sample
from qualm.runners.data.rows import as_row, as_sample, choose, with_provenance
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage

FULL = Sample(
    sample_id="s", question="Q?", image_id="i", references=("a", "b"), choices=("x", "y"), answer_index=1, category="c/d",
    answerable=False, split="val", source="src", group="g", meta={"k": "v", "l": ""}, pair_id="p",
)  # fmt: skip


def test_a_sample_comes_back_from_its_row_in_the_table():
    for sample in (FULL, Sample(sample_id="t", question="?")):
        (row,) = pa.Table.from_pylist([as_row(sample)], SAMPLES).to_pylist()
        assert as_sample(row) == sample


SAMPLE_LISTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=40).map(lambda cs: [(f"s{i}", c) for i, c in enumerate(cs)])


@given(SAMPLE_LISTS, st.integers(0, 45), st.integers(0, 9))
def test_a_larger_limit_chooses_a_superset_and_categories_keep_their_shares(samples, limit, seed):
    chosen = choose(samples, limit, seed)
    assert len(chosen) == min(limit, len(samples)) and chosen <= choose(samples, limit + 1, seed)
    totals, taken = Counter(c for _, c in samples), Counter(c for s, c in samples if s in chosen)
    for category, total in totals.items():
        assert abs(taken[category] - total * min(limit, len(samples)) / len(samples)) <= len(totals) / 2 + 1


def test_the_choice_depends_on_ids_and_seed_and_not_on_order():
    samples = [(f"s{i}", "c") for i in range(50)]
    assert choose(samples, 10, 1) == choose(samples[::-1], 10, 1) != choose(samples, 10, 2)


def test_a_schema_says_which_run_its_table_is_of():
    stage = Stage("s/d", "s", "data", "d", {"limit": 3}, {}, {}, 7, Settings())
    schema = with_provenance(stage, pa.schema([("a", pa.int64())], metadata={"old": "kept"}))
    assert json.loads(schema.metadata[b"qualm"]) == json.loads(json.dumps(stage.provenance)) and schema.metadata[b"old"] == b"kept"
