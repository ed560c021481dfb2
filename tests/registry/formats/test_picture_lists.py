"""Samples with several pictures: their ids, and the places that a question names."""

import pytest

from qualm.registry.formats.picture_lists import (
    MOST,
    all_ids,
    image_id_of,
    marked,
    picture_ids,
    problem_of_ids,
    problem_of_marks,
    segments,
    unmarked,
)


@pytest.mark.parametrize("ids", [(), ("a.png",), ("a", "b"), ("ü", 'x"y', "a, b"), ("[1]", "2")])
def test_ids_go_into_a_name_and_come_back(ids):
    assert picture_ids(image_id_of(ids)) == ids and problem_of_ids(image_id_of(ids)) == ""


def test_the_name_of_one_picture_is_its_own_id():
    assert image_id_of(["folder/a.png"]) == "folder/a.png" and image_id_of([]) is None


def test_all_ids_are_those_of_all_samples():
    assert all_ids([None, "a", '["b", "a"]']) == {"a", "b"}


def test_names_that_are_no_lists_are_refused():
    assert "begins like a list" in problem_of_ids('["a"')
    assert "two or more" in problem_of_ids('["a"]') and "two or more" in problem_of_ids('["a", 1]')
    assert f"at most {MOST}" in problem_of_ids(image_id_of([str(n) for n in range(MOST + 1)]))


def test_marks_count_only_where_there_are_several_pictures_and_one_for_each():
    assert marked("<image> or <image>", 2) and not marked("<image>", 1) and not marked("<image>", 2)
    assert segments("<image> or <image>", 2) == ["", " or ", ""] and segments("Why?", 0) == ["Why?"]
    assert unmarked("<image> or <image>", 2) == "or" and unmarked("<image>", 1) == "<image>"
    assert problem_of_marks("<image>", 2) and not problem_of_marks("?", 2) and not problem_of_marks("<image>", 1)
