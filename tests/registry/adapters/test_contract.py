import pytest

from registry.adapters import AdapterContext, AdapterError, cores


def test_source_is_handed_over_or_asked_for(tmp_path):
    assert AdapterContext(tmp_path, source=tmp_path).need_source("pope") == tmp_path
    with pytest.raises(AdapterError, match="qualm data add"):
        AdapterContext(tmp_path).need_source("pope")
    with pytest.raises(AdapterError, match="dvc pull"):
        AdapterContext(tmp_path, source=tmp_path / "gone").need_source("pope")


def test_zero_workers_means_one_per_core():
    assert cores(0) >= 1
    assert cores(3) == 3
