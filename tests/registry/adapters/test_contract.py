import pytest

from qualm.compiler.spec.language import Dataset
from qualm.registry.adapters import AdapterContext, AdapterError, count_processes, find_problem
from qualm.registry.plugins.registry import get, load, meta_keys, names
from qualm.registry.sample import Image, Sample
from tests.support.data.official_layouts import LAYOUTS


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


def test_the_layouts_are_found():
    assert {"pope", "gqa", "image_table"} <= set(LAYOUTS) and len(LAYOUTS) >= 27


@pytest.fixture
def read(tmp_path):
    """Reads an adapter's official files."""

    def call(name, **more):
        (tmp_path / name).mkdir(exist_ok=True)
        source, args = LAYOUTS[name](tmp_path / name)
        return list(load("datasets", name)(AdapterContext(tmp_path, source=source, **more), **args))

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
