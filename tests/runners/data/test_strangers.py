"""Strangers: another picture of another group, the same one however rows are ordered, spread over all pictures."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.data.dataset import choose_unrelated


@given(st.lists(st.tuples(st.sampled_from(["p0", "p1", "p2", "p3", None]), st.sampled_from(["", "a", "b", "c"])), max_size=20))
def test_a_stranger_has_another_picture_and_another_group(items):
    rows = [(f"s{i}", image, group) for i, (image, group) in enumerate(items)]
    groups = {}
    for sample, image, group in rows:
        groups.setdefault(image, set()).add(group or sample)
    chosen = choose_unrelated(rows)
    for sample, image, group in rows:
        fit = {other for other in groups if None not in (other, image) and other != image and (group or sample) not in groups[other]}
        assert (sample in chosen) == bool(fit)
        if sample in chosen:
            assert rows[chosen[sample]][1] in fit


def many(n):
    return [(f"s{i}", f"p{i // 2}", f"g{i // 2}") for i in range(n)]


def test_the_order_of_rows_is_no_matter_and_a_new_sample_changes_few_others():
    rows = many(200)
    names = {s: rows[other][1] for s, other in choose_unrelated(rows).items()}
    turned = rows[::-1]
    assert {s: turned[other][1] for s, other in choose_unrelated(turned).items()} == names
    more = many(202)
    assert sum(more[other][1] != names[s] for s, other in choose_unrelated(more).items() if s in names) <= 10


def test_pictures_are_taken_about_equally_often_and_members_of_a_pair_do_not_share_one():
    rows = many(2000)
    chosen = choose_unrelated(rows)
    counts = Counter(rows[other][1] for other in chosen.values())
    assert len(counts) > 500 and max(counts.values()) < 25
    assert sum(chosen[f"s{2 * i}"] != chosen[f"s{2 * i + 1}"] for i in range(1000)) > 990
