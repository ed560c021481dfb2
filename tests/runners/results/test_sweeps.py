from qualm.runners.results.perturbation import find_sweeps


def variant(plugin, modality="image", **args):
    return {"variant": f"{plugin}@{args}", "plugin": plugin, "modality": modality, "args": args}


def test_one_perturbation_at_several_strengths_in_their_order():
    (sweep,) = find_sweeps([variant("blur", radius=10.0), variant("blur", radius=2.0), variant("typos", "text", p=0.1)])
    assert (sweep.perturbation, sweep.modality, sweep.parameter) == ("blur", "image", "radius")
    assert [strength for strength, _ in sweep.points] == [2.0, 10.0]
    assert sweep.points[0][1] == "blur@{'radius': 2.0}"


def test_a_title_says_only_what_tells_sweeps_of_one_perturbation_apart():
    found = find_sweeps([*(variant("blur", radius=r) for r in (2.0, 4.0)), *(variant("typos", "text", p=p) for p in (0.1, 0.2))])
    assert [(s.perturbation, s.parameter, s.modality) for s in found] == [("blur", "radius", "image"), ("typos", "p", "text")]


def test_a_grid_of_two_parameters_is_a_sweep_per_row_and_column():
    found = find_sweeps([variant("cutout", ratio=r, count=c) for r in (0.1, 0.3) for c in (1, 4)])
    assert [(s.perturbation, s.parameter) for s in found] == [
        ("cutout (ratio=0.1)", "count"),
        ("cutout (ratio=0.3)", "count"),
        ("cutout (count=1)", "ratio"),
        ("cutout (count=4)", "ratio"),
    ]


def test_switches_and_words_are_no_strength_and_differ_makes_two():
    assert find_sweeps([variant("blur", radius=2.0, relative=b) for b in (False, True)]) == []
    assert find_sweeps([variant("blur", radius=2.0, relative=False), variant("blur", radius=4.0, relative=True)]) == []
    assert find_sweeps([variant("inv", "text", generator={"plugin": "rules", "args": {}})]) == []
