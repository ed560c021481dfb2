"""A gain is better than the baseline and than every row that does not look; by hand."""

from qualm.runners.results.gains import compare_with_blind


def compared(a, b, difference, p=0.001, **more):
    ends = {"low": None if difference is None else difference - 0.1, "high": None if difference is None else difference + 0.1}
    return {"a": a, "b": b, "difference": difference, "p_adjusted": p, "higher_is_better": True, "value_a": 0, "value_b": 1, **ends, **more}


MODELS = ["base", "base+blind_refuser", "tuned", "tuned+swapped_picture", "base+careful"]
BETTER = [compared("base", "tuned", 0.4), compared("base+blind_refuser", "tuned", 0.2), compared("tuned+swapped_picture", "tuned", 0.3)]


def of(tests, model="tuned", models=MODELS):
    return next(one for one in compare_with_blind(tests, models, "base") if one.model == model)


def test_only_models_that_look_are_asked_about():
    assert [one.model for one in compare_with_blind([], MODELS, "base")] == ["base", "tuned", "base+careful"]


def test_clear_of_all_of_them_is_a_gain_and_the_nearest_is_told():
    one = of(BETTER)
    assert one.is_gain and one.hardest["a"] == "base+blind_refuser" and one.hardest["difference"] == 0.2
    assert one.ran_without_image and not of(BETTER, "base").ran_without_image, "only the tuned one was asked before another picture"


def test_not_clear_of_one_of_them_is_none_though_another_is_nearer():
    one = of([*BETTER[:2], compared("tuned+swapped_picture", "tuned", 0.3, p=0.06)])
    assert one.over_baseline == "better" and not one.is_gain and one.hardest["a"] == "tuned+swapped_picture"


def test_a_test_that_was_not_made_is_not_passed():
    assert not of(BETTER[:2]).is_gain, "its own row with another picture was scored and not tested"
    assert not of(BETTER[:1]).is_gain and of(BETTER[:1]).hardest is None
    assert of(BETTER[:2], models=[m for m in MODELS if "swapped" not in m]).is_gain


def test_what_is_no_better_than_the_baseline_is_no_gain():
    assert not of([compared("base", "tuned", -0.4), *BETTER[1:]]).is_gain
    assert not of(BETTER[1:]).is_gain


def test_a_test_the_other_way_round_is_the_same_test():
    turned = [BETTER[0], compared("tuned", "base+blind_refuser", -0.2, p_not_worse=0.01), BETTER[2]]
    one = of(turned)
    assert one.hardest["p_not_worse"] is None, "that the second is not worse says nothing of the first"
    assert one.is_gain and one.hardest["difference"] == 0.2 and abs(one.hardest["low"] - 0.1) < 1e-12
    assert (one.hardest["a"], one.hardest["b"]) == ("base+blind_refuser", "tuned")


def test_of_errors_less_is_more():
    less = [{**t, "difference": -t["difference"], "higher_is_better": False} for t in BETTER]
    assert of(less).is_gain and of(less).hardest["a"] == "base+blind_refuser"


def test_an_undefined_difference_is_no_gain():
    assert not of([BETTER[0], compared("base+blind_refuser", "tuned", None, p=None), BETTER[2]]).is_gain
    for nothing in (None, float("nan")):  # counts as none: behind a loss, and before a gain that is not clear
        undefined = compared("base+blind_refuser", "tuned", nothing, p=None)
        for difference, hardest in ((-0.05, "tuned+swapped_picture"), (0.05, "base+blind_refuser")):
            one = of([BETTER[0], undefined, compared("tuned+swapped_picture", "tuned", difference, p=0.9)])
            assert one.hardest["a"] == hardest


def test_a_refuser_by_pictures_is_to_be_beaten_by_everyone_too():
    models = [*MODELS, "base+picture_refuser"]
    assert not of(BETTER, models=models).is_gain, "not tested"
    assert not of([*BETTER, compared("base+picture_refuser", "tuned", -0.1)], models=models).is_gain
    assert of([*BETTER, compared("base+picture_refuser", "tuned", 0.1)], models=models).is_gain
    alone = of([*BETTER[:1], compared("base+picture_refuser", "tuned", 0.1)], models=["base", "tuned", "base+picture_refuser"])
    assert alone.is_gain and not alone.ran_without_image
