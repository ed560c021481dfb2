"""Laws that every adapter of official files keeps, on the small files that its own test lays out; and every generator of scenes."""

import re

import pytest

from qualm.compiler.spec.language import Dataset
from qualm.registry.adapters import AdapterContext, AdapterError, count_processes, find_problem
from qualm.registry.plugins.registry import get, load, meta_keys, names
from qualm.registry.sample import Image, Sample
from tests.support.data.official_layouts import LAYOUTS

READS_IMAGES_TO_NAME_THEM = {"vlfeedback"}
"""Its image ids are digests of the images."""
GENERATED = {"clevr_hallucination": "per_type", "spoilt_scenes": "scenes", "synthetic_scenes": "test", "uncertain_scenes": "per_subset"}
"""Adapter that draws scenes -> its parameter for the number of samples."""
ELSEWHERE = {"recorded_samples", "skimage_photos", "vlm_uncertainty_bench"}
"""Adapters whose files other tests lay out."""
SUFFIXES = {".json", ".jsonl", ".jsonlines"}


def test_source_is_handed_over_or_asked_for(tmp_path):
    assert AdapterContext(tmp_path, source=tmp_path).need_source("pope") == tmp_path
    with pytest.raises(AdapterError, match="qualm data add"):
        AdapterContext(tmp_path).need_source("pope")
    with pytest.raises(AdapterError, match="dvc pull"):
        AdapterContext(tmp_path, source=tmp_path / "gone").need_source("pope")


def test_zero_workers_means_one_per_core():
    assert count_processes(0) >= 1
    assert count_processes(3) == 3


@pytest.mark.parametrize("name", names("datasets"))
def test_no_parameter_is_called_as_a_data_set_s_own_keys_are(name):
    """A spec has both beside each other: such a parameter could never be reached, and nothing would say so."""
    assert not {p.name for p in get("datasets", name).parameters} & set(Dataset.model_fields)


def test_every_adapter_has_laws():
    assert {*LAYOUTS, *GENERATED, *ELSEWHERE} == set(names("datasets"))


@pytest.fixture
def read(tmp_path):
    """Reads an adapter's official files."""

    def call(name, **more):
        (tmp_path / name).mkdir(exist_ok=True)
        source, args = LAYOUTS[name](tmp_path / name)
        return list(load("datasets", name)(AdapterContext(tmp_path / "out", source=source, **more), **args))

    return call


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_the_stage_relies_on(read, name):
    images, samples = set(), set()
    made = read(name)
    for item in made:
        if isinstance(item, Image):
            assert item.image_id not in images and item.data
            images.add(item.image_id)
        else:
            assert not find_problem(item, images, samples)
            samples.add(item.sample_id)
    assert samples and images == {item.image_id for item in made if isinstance(item, Sample)} - {None}
    assert made == read(name, workers=2, seed=5)


@pytest.mark.parametrize("name", LAYOUTS)
def test_meta_is_declared(read, name, tmp_path):
    """So that a spec's `where:` is checked against it before anything runs; of one's own data the card says what it is."""
    declared = get("datasets", name).declares.get("META")
    if declared is None:
        assert name == "certainly_uncertain" or "meta" in {p.name for p in get("datasets", name).parameters}  # those of the data
        return
    (tmp_path / "args").mkdir()
    keys = meta_keys(get("datasets", name), LAYOUTS[name](tmp_path / "args")[1])
    assert {key for item in read(name) if isinstance(item, Sample) for key in item.meta} <= {*keys}


@pytest.mark.parametrize("name", LAYOUTS)
def test_pictures_of_what_is_not_selected_are_not_read(read, name):
    assert read(name, selects=lambda sample: False) == []
    first = next(item for item in read(name) if isinstance(item, Sample))
    chosen = read(name, selects=lambda sample: sample == first)
    assert [item for item in chosen if isinstance(item, Sample)] == [first]
    assert {item.image_id for item in chosen if isinstance(item, Image)} <= {first.image_id}


def tables(source):
    return [path for path in source.rglob("*") if path.suffix in SUFFIXES]


def images(source):
    return [path for path in source.rglob("*") if path.suffix in {".png", ".jpg"} or path.parent.name == "SEED-Bench-image"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_missing_or_cut_off_file_is_named(tmp_path, name):
    """Files that are not read, such as another split's, do not matter."""
    (tmp_path / "in").mkdir()
    source, args = LAYOUTS[name](tmp_path / "in")
    adapter, errors = load("datasets", name), []
    made = list(adapter(AdapterContext(tmp_path / "out", source=source), **args))
    for path in tables(source):
        whole = path.read_bytes()
        path.write_bytes(whole.rstrip()[:-2])
        try:
            assert list(adapter(AdapterContext(tmp_path / "out", source=source), **args)) == made
        except AdapterError as error:
            errors.append(str(error))
            assert path.name in str(error) and "expected" in str(error)
        path.write_bytes(whole)
    assert errors or not tables(source)
    (tmp_path / "empty").mkdir()
    with pytest.raises(AdapterError, match="empty"):
        list(adapter(AdapterContext(tmp_path / "out", source=tmp_path / "empty"), **args))


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_image_that_is_missing_is_named_if_it_is_selected_and_only_its_records_can_be_left_out(tmp_path, name):
    (tmp_path / "in").mkdir()
    source, args = LAYOUTS[name](tmp_path / "in")
    adapter, faults = load("datasets", name), []
    made = list(adapter(AdapterContext(tmp_path / "out", source=source), **args))
    gone = [path.rename(path.with_name("lost")) for path in images(source)]
    kept = [item for item in made if not gone or (isinstance(item, Sample) and item.image_id is None)]
    assert list(adapter(AdapterContext(tmp_path / "out", source=source, bad=faults.append), **args)) == kept
    assert len(faults) >= len([item for item in made if isinstance(item, Image)]) or not gone
    for fault in faults:
        assert re.search(r"(line|record|annotation|question) ['\d].*: expected its image at |\.txt: expected its image at ", str(fault)), (
            fault
        )
    if name not in READS_IMAGES_TO_NAME_THEM:
        assert list(adapter(AdapterContext(tmp_path / "out", source=source, selects=lambda sample: False), **args)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATED)
def test_generators_draw_by_seed_and_larger_numbers_only_add(tmp_path, name):
    def draw(number, **context):
        return list(load("datasets", name)(AdapterContext(tmp_path, **context), **{GENERATED[name]: number}))

    few, ids, images = draw(4, seed=7), set(), set()
    for item in few:
        if isinstance(item, Image):
            images.add(item.image_id)
        else:
            assert not find_problem(item, images, ids) and item.group
            ids.add(item.sample_id)
    assert len(ids) >= 4 and images and {item.image_id for item in few if isinstance(item, Sample)} == images
    assert draw(4, seed=7, workers=2) == few != draw(4, seed=8)
    more = draw(7, seed=7)
    assert [item for item in more if item in few] == few and len(more) > len(few)
    last = [item for item in few if isinstance(item, Sample)][-1]
    assert [type(item) for item in draw(4, seed=7, selects=lambda sample: sample == last)] == [Image, Sample]
    assert draw(4, seed=7, selects=lambda sample: False) == []
