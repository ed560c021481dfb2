"""TensorBoard: event files as its own reader opens them."""

from importlib.util import find_spec

import pytest

from qualm.runners.plugins.exports.tensorboard import tensorboard
from tests.support.projects.tracked import BASE, CURVES, TUNED, tracked

pytestmark = pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs tensorboard")


def test_its_reader_finds_scores_curves_and_parameters(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    context = tracked(tmp_path)
    tensorboard(context)
    for model, metrics, curves, last in (("base", BASE, {}, 0), ("tuned", TUNED, CURVES, 200)):
        events = EventAccumulator(str(context.folder / model))
        events.Reload()
        assert set(events.Tags()["scalars"]) == {*metrics, *curves}
        for name, value in metrics.items():
            assert [(event.step, event.value) for event in events.Scalars(name)] == [(last, value)]
        for name, points in curves.items():
            assert [(event.step, event.value) for event in events.Scalars(name)] == points
        plugins = [metadata.plugin_data for metadata in events.summary_metadata.values()]
        (content,) = [plugin.content for plugin in plugins if plugin.plugin_name == "hparams"]
        start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
        assert start.hparams["spec"].string_value == "bench" and start.start_time_secs == context.time.timestamp()


def test_equal_inputs_equal_bytes(tmp_path):
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        context = tracked(tmp_path / name)
        tensorboard(context)
        files.append({path.relative_to(context.folder): path.read_bytes() for path in context.folder.rglob("*") if path.is_file()})
    assert files[0] == files[1] and len(files[0]) == 2
