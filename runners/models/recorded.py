"""Answers that were given elsewhere, scored by the same path as our own: published tables rebuild from raw outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from registry.plugins import Artifact
from registry.vub_layout import LayoutError, answer_index, logits, read_records
from runners.models import ModelContext, ModelError, Recording

if TYPE_CHECKING:
    import pyarrow as pa

GIVES = ["option_logits"]


def recorded(
    context: ModelContext, *, source: Artifact, run: str, format: Literal["vlm_uncertainty_bench"] = "vlm_uncertainty_bench"
) -> Recording:
    """A model's recorded outputs; nothing is computed.

    Args:
        source: The recording's folder.
        run: The model's name in it.
        format: How it lies there. `vlm_uncertainty_bench`: `output/RUN/DATASET.pkl`, six option logits per question.
    """
    return VubRecording(context.folder or Path(source), run)


class VubRecording:
    """One folder of VLM-Uncertainty-Bench's `output`."""

    def __init__(self, source: Path, run: str) -> None:
        self.source, self.run = source, run

    def lookup(self, dataset: str, samples: pa.Table) -> pa.Table:
        """Rows of GENERATIONS with the option logits of these SAMPLES.

        Raises:
            ModelError: the samples are not of this benchmark, or the run holds other questions than they are.
        """
        import pyarrow as pa

        from registry.sample import CLEAN, GENERATIONS, GREEDY

        sources = set(samples["source"].to_pylist())
        adapter, _, official = next(iter(sources), "").partition("/")
        if len(sources) != 1 or adapter != "vlm_uncertainty_bench":
            found = ", ".join(sorted(map(str, sources))) or "no samples"
            raise ModelError(f"{self.source}: run '{self.run}' records vlm_uncertainty_bench; dataset '{dataset}' comes from {found}")
        try:
            records = {str(r["id"]): r for r in read_records(self.source, self.run, official)}
        except LayoutError as error:
            raise ModelError(str(error)) from error
        where = f"{self.source}: run '{self.run}', {official}"
        rows = []
        for sample in samples.select(["sample_id", "answer_index", "choices"]).to_pylist():
            record = records.get(sample["sample_id"])
            if record is None:
                raise ModelError(f"{where}: has no question {sample['sample_id']}; the run is of other rows than dataset '{dataset}'")
            if answer_index(record) != sample["answer_index"]:
                raise ModelError(
                    f"{where}: question {sample['sample_id']}: right answer is {record['answer']} there and option "
                    f"{sample['answer_index']} in dataset '{dataset}'; the run was made from other options"
                )
            if [record[k] if isinstance(record[k], str) else "" for k in "ABCD"] != sample["choices"][:4]:
                raise ModelError(f"{where}: question {sample['sample_id']}: options differ from those of dataset '{dataset}'")
            rows.append({"sample_id": sample["sample_id"], "variant": CLEAN, "draw": GREEDY, "option_logits": logits(record).tolist()})
        return pa.Table.from_pylist(rows, schema=GENERATIONS)
