"""The table of the simulations: what is off is marked with a reason, what chance explains is not."""

import re

from tests.simulation.__main__ import PAGE, page
from tests.simulation.intervals import DIFFERENCE, KINDS, Held
from tests.simulation.page import OF_TESTS, REASONS, WANTED, off, table


def test_a_share_is_off_beyond_two_standard_errors():
    assert [off(held, 1000, (0.93, 0.97)) for held in (900, 920, 950, 978, 995)] == [-1, 0, 0, 0, 1]
    assert [off(held, 1000, (0.035, 0.065)) for held in (10, 50, 100)] == [-1, 0, 1]


def test_tables_go_between_their_marks_and_the_rest_stays():
    text = "a\n<!-- x -->\nold\n<!-- end of x -->\nb\n<!-- y -->\n<!-- end of y -->\n"
    new = page(text, {"x": "1", "y": "2"})
    assert new == "a\n<!-- x -->\n1\n<!-- end of x -->\nb\n<!-- y -->\n2\n<!-- end of y -->\n" == page(new, {"x": "1", "y": "2"})


def test_a_fold_for_each_metric_with_intervals_and_tests():
    known = [Held("accuracy", 100, 10, 0.5, 100, 50, 48, 0.1), Held("accuracy" + DIFFERENCE, 100, 10, 0.5, 100, 100, 95, 0.1, 100, 20)]
    text = table(known)
    assert "<summary><code>accuracy</code>: 1 of 9 off, 0 more outside within two standard errors</summary>" in text
    assert "| 100 | 10 | .96 (50%) |  |  | .95 |  |  | **.200** a |  |  |" in text


def test_every_share_of_the_page_that_is_outside_has_a_mark_and_every_mark_its_reason():
    text = PAGE.read_text(encoding="utf-8").partition("<!-- simulated -->")[2].partition("<!-- end of simulated -->")[0]
    reasons = set(re.findall(r"^- \*\*(.)\*\*: ", text, re.MULTILINE))
    entries = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| [\d,]+ \| ", line)]
    assert len(entries) >= 150
    used = set()
    for _, _, *shares in entries:
        for k, entry in enumerate(shares):
            one = re.fullmatch(r"(\*\*)?([01]?\.\d+)(?:\*\* (\w)|(~))?(?: \(\d+%\))?", entry.strip())
            if one is None:
                assert entry.strip() in ("", "none"), entry
                continue
            low, high = OF_TESTS if k >= 6 else WANTED
            mark = one[3] or one[4]
            assert low <= float(one[2]) <= high or mark in reasons, entry
            used.add(mark)
    assert used - {None} == reasons


def test_every_metric_has_a_reason_either_way():
    for metric in (name for names in KINDS.values() for name in names):
        for label in (metric, metric + DIFFERENCE):
            for high in (True, False):
                assert any(reason.holds(Held(label, 100, 10, 0.9, 1, 1, 1, 0.1), high) for reason in REASONS), (label, high)
