import pytest

from compiler.spec import Dataset
from registry.adapters import AdapterContext, AdapterError, cores
from registry.plugins import get, names


def test_source_is_handed_over_or_asked_for(tmp_path):
    assert AdapterContext(tmp_path, source=tmp_path).need_source("pope") == tmp_path
    with pytest.raises(AdapterError, match="qualm data add"):
        AdapterContext(tmp_path).need_source("pope")
    with pytest.raises(AdapterError, match="dvc pull"):
        AdapterContext(tmp_path, source=tmp_path / "gone").need_source("pope")


def test_zero_workers_means_one_per_core():
    assert cores(0) >= 1
    assert cores(3) == 3


@pytest.mark.parametrize("name", names("datasets"))
def test_no_parameter_is_called_as_a_data_set_s_own_keys_are(name):
    """A spec has both beside each other: such a parameter could never be reached, and nothing would say so."""
    assert not {p.name for p in get("datasets", name).parameters} & set(Dataset.model_fields)
