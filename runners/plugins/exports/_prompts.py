"""What a recorded model was asked: the prompt that its log keeps. Ours was never sent, so where the log has none there is none."""

from collections.abc import Mapping

from qualm.registry.recordings.record import RecordingError
from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.plugins.exports._parts import ExportPart
from qualm.runners.runtime.records import read_table


def prompts(part: ExportPart) -> Mapping[str, str]:
    """Sample id -> prompt, as far as the recording is here and keeps them; empty for a model that was asked here."""
    if part.recorded is None or part.source is None or not part.source.exists():
        return {}
    from qualm.runners.plugins.models.recorded import recorded

    try:
        model = recorded(ModelContext(part.model, folder=part.source), **part.recorded)
        read_prompts = getattr(model, "prompts", None)
        by_sample: Mapping[str, str] = (
            read_prompts(part.dataset, read_table(part.samples / "samples.parquet", SAMPLES)) if read_prompts else {}
        )
    except (ModelError, RecordingError):
        return {}
    return by_sample
