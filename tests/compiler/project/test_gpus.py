import pytest

from qualm.compiler.project.resources import CARDS, parse_gpu
from qualm.compiler.spec.errors import ProjectError


def test_cards_by_name_have_plausible_numbers():
    for name, one in CARDS.items():
        assert parse_gpu(name.upper()) is one and one.name == name
        assert one.half > one.single > 1e12 and 1e11 < one.traffic < 1e13 and 8 * 2**30 < one.memory < 256 * 2**30
    assert CARDS["h100"].half == 989e12 and CARDS["h100"].traffic == 3350e9 and CARDS["h100"].memory == 79 * 2**30


@pytest.mark.parametrize("dtype, rate", [("bfloat16", 2e12), ("float16", 2e12), ("float32", 1e12), ("float64", 1e12)])
def test_the_rate_depends_on_the_dtype(dtype, rate):
    from dataclasses import replace

    assert replace(parse_gpu("1 1 1"), half=2e12).rate(dtype) == rate


def test_a_card_by_numbers():
    mine = parse_gpu("989 4800 139")
    assert (mine.half, mine.single, mine.traffic, mine.memory) == (989e12, 989e12, 4800e9, 139 * 2**30)


@pytest.mark.parametrize("text", ["h1000", "1 2", "1 2 3 4", "a b c", "", "nan 1 1", "1 inf 1", "1 1 0", "1e308 1 1"])
def test_what_is_no_card(text):
    with pytest.raises(ProjectError, match="expected b200, h200, h100"):
        parse_gpu(text)
