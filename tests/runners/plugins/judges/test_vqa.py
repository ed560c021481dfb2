import pytest

from qualm.runners.plugins.judges.vqa import accuracy, normalise, vqa


@pytest.mark.parametrize(("same", "expected"), [(0, 0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1), (7, 1), (10, 1)])
def test_agreement_with_ten_people(same, expected):
    assert accuracy("cat", ["cat"] * same + ["dog"] * (10 - same)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,000", "1000"),
        ("The Cat.", "cat"),
        ("ice-cream", "ice cream"),
        ("dont know", "don't know"),
        ("U.S.A.", "usa"),
        ("3.5", "3.5"),
        ("5.", "5"),
        ("$5.00", "$5.00"),
        ("5:30 pm", "5:30 pm"),
        ("none", "0"),
        ("a", ""),
        ("yes,it is", "yes it is"),
        ("it's", "it's"),
        ("Im", "im"),  # the table's "Im" has a capital and is never met
        ("couldnt've", "couldn't've"),
        ("couldn'tve", "couldn't've"),
        ("somebody'd", "somebodyd"),
        ("yalld've", "yalld've"),  # one apostrophe is put back, not two
        ("y'alld've", "y'all'd've"),
        ("'ow'sat", "'ow's'at"),
        ("hed", "he'd"),
        ("a.b" * 34, "ab" * 32 + "a.ba.b"),  # re.UNICODE stands where the count belongs, and is 32
    ],
)
def test_normalisation(text, expected):
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("text", "official", "evalai", "reliable"),
    [
        ("yes,it is", "yes it is", "yesit is", "yes it is"),
        ("it's", "it's", "it 's", "it's"),
        ("red/white", "red white", "red white", "red white"),
        ("red / white", "red white", "red white", "red white"),
        ("--no--", "no", "no", "no"),
        ("is it?", "is it", "is it", "is it"),
        ("1,000-2,000", "10002000", "1000 2000", "1000-2000"),
        ("10-20", "10 20", "10 20", "10-20"),
        ("yes! (maybe)", "yes maybe", "yes maybe", "yes maybe"),
        ("t-shirt, a", "t shirt", "t shirt", "t shirt"),
        ("..5", ".5", ".5", ".5"),
    ],
)
def test_three_rules_in_circulation(text, official, evalai, reliable):
    """What the three evaluators give, run on these texts."""
    assert (normalise(text), normalise(text, "evalai"), normalise(text, "reliable")) == (official, evalai, reliable)


def test_the_evalai_rule_is_always_applied():
    asked = (["?"], [["yes"] * 10], ["Yes"])
    assert [vqa(*asked, rule=rule)[0].rating for rule in ("official", "reliable", "evalai")] == [0, 0, 1]


def test_normalised_only_where_the_references_differ():
    found = vqa(["?"] * 2, [["yes"] * 10, ["yes"] * 9 + ["no"]], ["Yes", "Yes"])
    assert [j.rating for j in found] == [0, 1]


def test_fewer_references_and_refusals():
    assert accuracy("cat", ["cat", "cat", "dog"]) == pytest.approx((1 / 3 + 1 / 3 + 2 / 3) / 3)
    found = vqa(["?"] * 3, [["cat"], [], ["cat", "cat"]], ["cat", "I don't know", "I don't know"])
    assert [(j.rating, j.pred_is_idk) for j in found] == [(None, False), (1, True), (0, True)]


def test_a_refusal_may_stand_for_what_people_wrote():
    people = ["unanswerable"] * 3 + ["soup"] * 7
    asked = (["What is in the can?"] * 3, [people] * 3, ["I can't tell from the picture.", "unanswerable", "soup"])
    assert [j.rating for j in vqa(*asked)] == pytest.approx([0.0, 0.9, 1.0])
    as_people_say = vqa(*asked, refusal="unanswerable")
    assert [j.rating for j in as_people_say] == pytest.approx([0.9, 0.9, 1.0])
    assert as_people_say[0].pred_is_idk is True
