"""Samples with several images: their ids, and the places that a question names."""

import pytest

from qualm.registry.formats.picture_lists import (
    MAX_IMAGES,
    all_ids,
    find_id_problem,
    find_mark_problem,
    has_marks,
    image_id_of,
    picture_ids,
    remove_marks,
    split_at_images,
)


@pytest.mark.parametrize("ids", [(), ("a.png",), ("a", "b"), ("ü", 'x"y', "a, b"), ("[1]", "2")])
def test_ids_go_into_a_name_and_come_back(ids):
    assert picture_ids(image_id_of(ids)) == ids and find_id_problem(image_id_of(ids)) == ""


def test_the_name_of_one_picture_is_its_own_id():
    assert image_id_of(["folder/a.png"]) == "folder/a.png" and image_id_of([]) is None


def test_all_ids_are_those_of_all_samples():
    assert all_ids([None, "a", '["b", "a"]']) == {"a", "b"}


def test_names_that_are_no_lists_are_refused():
    assert "begins like a list" in find_id_problem('["a"')
    assert "two or more" in find_id_problem('["a"]') and "two or more" in find_id_problem('["a", 1]')
    assert f"more than {MAX_IMAGES} cannot be read" in find_id_problem(image_id_of([str(n) for n in range(MAX_IMAGES + 1)]))


def test_marks_count_only_where_there_are_several_pictures_and_one_for_each():
    assert has_marks("<image> or <image>", 2) and not has_marks("<image>", 1) and not has_marks("<image>", 2)
    assert split_at_images("<image> or <image>", 2) == ["", " or ", ""] and split_at_images("Why?", 0) == ["Why?"]
    assert remove_marks("<image> or <image>", 2) == "or" and remove_marks("<image>", 1) == "<image>"
    assert find_mark_problem("<image>", 2) and not find_mark_problem("?", 2) and not find_mark_problem("<image>", 1)
