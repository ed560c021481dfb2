"""The one reader of a finished benchmark: its scores, answers, comparisons, rankings and questions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from qualm.registry import abstaining_name
from qualm.registry.parameters import nested_paths
from qualm.registry.plugins.column_names import MARKED_BY, RATED_BY
from qualm.registry.sample import CLEAN, GENERATIONS, GREEDY, SAMPLES, SHORTCUTS
from qualm.registry.text import ProjectError, nearest
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import read_scored
from qualm.runners.results.tables import TABLES, labelled, scan
from qualm.runners.runtime.stage import Stage
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.read_cells import BLIND_VARIANTS, read_cells
from qualm.runners.scoring.measuring.tables import Tables

if TYPE_CHECKING:
    from PIL.Image import Image

OF_SAMPLES = ("question", "references", "choices", "answer_index", "category", "answerable", "split", "group", "image_id", "pair_id")
OF_ANSWERS = ("text", "thinking", "no_answer")
VERDICTS = pl.Schema(
    {
        **dict.fromkeys(("model", "dataset", "variant", "sample_id"), pl.String),
        "predicted": pl.Int64,
        **dict.fromkeys(("correct", "confidence"), pl.Float64),
        **dict.fromkeys(("pred_is_idk", "abstains"), pl.Boolean),
    }
)
"""Columns of `Results.verdicts`: the option picked, correctness and confidence in [0, 1], whether the reply abstains, and whether the
threshold of an abstaining model replaced it by an abstention."""
FLAGS = ("pred_is_idk", "gt_is_idk", "hedges", "answerable", "says_uncertain", "input_changed")
"""Columns of cells that are yes or no."""
OMITTED_COLUMNS = (RATED_BY, "option_probabilities", "answerable", "uncertain", "fold", "right_option", "n_options", "in_words")
"""Columns of cells that a table of answers has in another form, or that mean nothing outside of scoring."""


class Results:
    """Reads the tables of a benchmark that was run.

    Correctness, picked options, confidence and abstention of answers are those that scores are computed from
    (`qualm.runners.scoring.measuring.read_cells`).
    """

    def __init__(
        self,
        stage: Stage,
        models: Sequence[str] = (),
        root: Path = Path(),
        verify: Callable[[Path, Iterable[str | Path]], None] | None = None,
    ) -> None:
        """Keep the score or report stage whose files the methods read; read nothing yet.

        Args:
            stage: Its paths are relative to `root`.
            models: Scored models, including abstaining ones and baselines.
            root: Folder of the project, or of a copy of its results at another revision.
            verify: Called with the paths that are about to be read.
        """
        self.stage, self.root = stage, root
        self.spec = stage.spec
        self.models = list(models)
        self._verify = verify or (lambda root, paths: None)

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Return kind -> paths of the scored files: `datasets`, `generations`, `judgements`..."""
        return self.stage.inputs

    @property
    def is_scored(self) -> bool:
        path = self._path("scores")
        return path is not None and path.is_file()

    @property
    def datasets(self) -> list[str]:
        """Return the names of the datasets that models were scored on."""
        return list(self.inputs["datasets"])

    @property
    def tables(self) -> list[str]:
        """Return the names of the tables that scoring writes, for `table`."""
        return [name for name, path in self.stage.outputs.items() if str(path).endswith(".parquet")]

    def scan(self, name: str) -> pl.LazyFrame:
        """Return a table of `TABLES` as a lazy frame, empty if the benchmark has none.

        Raises:
            RecordError: it is not there yet, damaged, or breaks its schema.
        """
        path = self._path(name)
        if path is not None:
            self._verify(self.root, [path])
        return scan(path, TABLES[name])

    def table(self, name: str) -> pl.DataFrame:
        """Return table `name` (`rankings`, `effects`...) as written; ProjectError if unknown.

        Raises:
            ProjectError: there is none of this name, or it was not made yet.
        """
        if name not in self.tables:
            raise ProjectError(f"'{self.spec}' has no table '{name}'; {nearest(name, self.tables)}")
        return self.scan(name).collect()

    @property
    def scores(self) -> pl.DataFrame:
        """Return a row per metric, model, dataset, variant and slice, with its interval.

        `metric` is the plugin, `parameters` (JSON) what it was given, `estimator` whose uncertainty it reads, `conformal` the setting of
        conformal sets and `nonconformity` the score of theirs ("mean": over all), `calibrator` (SETTING/METHOD) what recalibrated the
        confidence, `judge` whose ratings it reads, `higher_is_better` the direction; `label` is all of it in one text. So are the columns
        of scores.parquet.

        Raises:
            ProjectError: nothing was scored yet.
        """
        return self.scan("scores").collect()

    def labelled(self, name: str = "scores") -> pl.LazyFrame:
        """Return the table `name` with LABELLED_SCORES columns: `metric` is the whole label."""
        return labelled(self.scan(name))

    def answers(self, model: str | None = None, dataset: str | None = None, variant: str | None = CLEAN) -> pl.DataFrame:
        """Return a row per greedy answer: question, answer, and all measurements of it.

        Args:
            model: One model; all without.
            dataset: One dataset; all without.
            variant: One variant; None for all, the perturbed ones too.

        Returns:
            `model`, `dataset`, `variant`, `sample_id`, the sample's own columns (`question`, `references`, `choices`, `category`,
            `answerable`, `group`, `image_id`...), `text`, `correct`, `confidence`, what judges said (`pred_is_idk`, `rated_by_NAME`),
            `uncertainty[ESTIMATOR]`, and of conformal sets `is_calibration[SETTING]`, `set_size[SETTING/SCORE]`, `covered[...]`. What
            has no value is null.

        Raises:
            ProjectError: a name is none of this spec's, or nothing was run yet.
        """
        for what, name, names in (("model", model, self.models), ("dataset", dataset, self.datasets)):
            if name is not None and name not in names:
                raise ProjectError(f"'{self.spec}' has no {what} '{name}'; {nearest(name, names)}")
        signals = [name for name in ("uncertainties", "probe_values", "sets") if name in self.inputs]
        parts = [
            self._answers_of(cell) for cell in self.cells(None if model is None else [model], dataset, variant, signals, recalibrated=False)
        ]
        if not parts:
            raise ProjectError(f"'{self.spec}' has no answers under the variant '{variant}'; `variant=None` gives those of all")
        return pl.concat(parts, how="diagonal_relaxed")

    def verdicts(self, variant: str = CLEAN) -> pl.LazyFrame:
        """Return VERDICTS of answers under a variant, except rows that rules are fitted on."""
        rules = self.scan("abstentions").filter(pl.col("variant") == variant)
        models = rules.select("model", "method").unique().collect().rows()
        names = {abstaining_name(model, method): (model, method) for model, method in models}
        parts = [pl.DataFrame(schema=VERDICTS).lazy()]
        for cell in self.cells(variant=variant, signals=(), recalibrated=False):
            base, source = self.answer_source(cell.model, variant)
            answered = self.texts(base, cell.samples.name, source).select("sample_id")
            frame = self._frame(cell, ("predicted", "correct", "confidence", "pred_is_idk")).lazy()
            frame = frame.join(answered, on="sample_id", how="semi", maintain_order="left")
            if cell.model in names:
                model, method = names[cell.model]
                own = rules.filter(model=model, method=method, dataset=cell.samples.name).filter(~pl.col("is_fit"))
                frame = frame.join(own.select("sample_id", "abstains"), on="sample_id", how="inner", maintain_order="left")
            parts.append(frame)
        return pl.concat(parts, how="diagonal_relaxed").select(VERDICTS.names())

    def cells(
        self,
        models: Collection[str] | None = None,
        dataset: str | None = None,
        variant: str | None = None,
        signals: Collection[str] | None = None,
        recalibrated: bool = True,
    ) -> Iterator[Cell]:
        """Yield a Cell per dataset, model and variant: its answers as columns that metrics read.

        Args:
            models: Some models; all without.
            dataset: One dataset; all without.
            variant: One variant; all without.
            signals: Tables to read beside the judgements and abstentions; None for all.
            recalibrated: Fit the spec's calibrators, and let conformal sets be calibrated again.

        Raises:
            RecordError, StageError: a table is missing or was made from other data.
        """
        stage = self.located_stage(models)
        inputs = {
            name: path
            for name, path in stage.inputs.items()
            if signals is None or name in ("datasets", "generations", "judgements", "abstentions", *signals)
        }
        params = stage.params if recalibrated else {k: v for k, v in stage.params.items() if k not in ("calibrators", "conformal")}
        stage = replace(stage, inputs=inputs, params=params)
        self._verify(self.root, nested_paths(inputs))
        names = self.datasets if dataset is None else [dataset]
        datasets = [read_scored(stage, name, stage.inputs["datasets"][name]) for name in names]
        tables = Tables(stage, datasets)
        for samples in datasets:
            for cell in read_cells(stage, samples, tables, variants=None if variant is None else {variant}):
                if (models is None or cell.model in models) and variant in (None, cell.variant):
                    yield cell

    def located_stage(self, models: Collection[str] | None = None) -> Stage:
        """Return the stage with full input paths, and only the answers of `models`, if given."""

        def absolute(tree: Any) -> Any:
            return {k: absolute(v) for k, v in tree.items()} if isinstance(tree, dict) else str(self.root / tree)

        inputs = absolute(dict(self.inputs))
        if models is not None:
            inputs["generations"] = {
                name: files
                for name, files in inputs.get("generations", {}).items()
                if any(model == name or model.startswith(f"{name}+") for model in models)
            }
        return replace(self.stage, inputs=inputs)

    def generations(self, model: str, dataset: str) -> pl.DataFrame:
        """Return a model's answers to a dataset: a row per variant and draw (0 is greedy).

        Raises:
            ProjectError: a name is none of this spec's, or nothing was run yet.
        """
        return self.scan_generations(model, dataset).collect()

    def scan_generations(self, model: str, dataset: str) -> pl.LazyFrame:
        files = self.inputs["generations"]
        if model not in files:
            raise ProjectError(f"'{self.spec}' has no answers of a model '{model}'; {nearest(model, files)}")
        if dataset not in files[model]:
            raise ProjectError(f"'{model}' was not asked '{dataset}'; {nearest(dataset, files[model])}")
        path = self.root / files[model][dataset]
        self._verify(self.root, [path])
        return scan(path, GENERATIONS)

    def answer_source(self, model: str, variant: str) -> tuple[str, str]:
        """Return the (model, variant) whose stored answers a scored model uses.

        An abstaining model uses its base model's answers, a baseline those under its variant without the image.
        """
        if model in self.inputs["generations"]:
            return model, variant
        base, _, way = model.rpartition("+")
        return base, way if way in BLIND_VARIANTS else variant

    def texts(self, model: str, dataset: str, variant: str | None = CLEAN) -> pl.LazyFrame:
        """Return a model's greedy answers, a row each, under one variant or all (None).

        The columns are `sample_id`, `variant`, those of OF_ANSWERS, and `option`, the index of the option with the largest logit.
        """
        greedy = self.scan_generations(model, dataset).filter(pl.col("draw") == GREEDY)
        chosen = greedy if variant is None else greedy.filter(pl.col("variant") == variant)
        return chosen.select("sample_id", "variant", *OF_ANSWERS, option=pl.col("option_logits").list.arg_max().cast(pl.Int64))

    def shortcuts(self, dataset: str) -> pl.LazyFrame:
        """Return a dataset's SHORTCUTS (what question or image alone reveals); empty if unknown."""
        path = self.inputs.get("shortcuts", {}).get(dataset)
        if path is None:
            return scan(None, SHORTCUTS)
        self._verify(self.root, [path])
        return scan(self.root / path, SHORTCUTS)

    def scored_samples(self, dataset: str) -> pl.DataFrame:
        """Return the questions in a dataset's scored splits, a row each.

        Raises:
            ProjectError: the dataset does not exist or was not built yet.
        """
        folder = self._folder(dataset)
        self._verify(self.root, [folder])
        return _frame_of(read_scored(self.stage, dataset, str(folder)).table)

    def samples(self, dataset: str) -> pl.DataFrame:
        """Return the questions of a dataset in all splits, scored or not, a row each.

        Raises:
            ProjectError: the dataset does not exist or was not built yet.
        """
        folder = self._folder(dataset)
        self._verify(self.root, [folder])
        return scan(folder / "samples.parquet", SAMPLES).collect()

    def image(self, dataset: str, sample_id: str) -> Image | None:
        """Return a question's unperturbed image; None without one, ProjectError if several.

        Raises:
            ProjectError: there is no such dataset or question, or it has several images, which `images` gives.
        """
        images = self.images(dataset, sample_id)
        if len(images) > 1:
            raise ProjectError(f"dataset '{dataset}': sample '{sample_id}' has {len(images)} images; `images` gives all of them")
        return images[0] if images else None

    def images(self, dataset: str, sample_id: str) -> tuple[Image, ...]:
        """Return all unperturbed images of a question, in display order; () without any.

        Raises:
            ProjectError: there is no such dataset or question.
        """
        ids = self.samples(dataset)["sample_id"].to_list()
        if sample_id not in ids:
            raise ProjectError(f"dataset '{dataset}' has no sample '{sample_id}'; {nearest(sample_id, ids)}")
        return DatasetFolder(dataset, self._folder(dataset)).item(ids.index(sample_id)).images()

    def __repr__(self) -> str:
        return f"<qualm results of '{self.spec}': {len(self.models)} models, datasets {', '.join(self.datasets)}>"

    def _path(self, name: str) -> Path | None:
        path = self.stage.outputs.get(name) or self.inputs.get(name)
        return None if path is None else self.root / path

    def _folder(self, dataset: str) -> Path:
        folders = self.inputs["datasets"]
        if dataset not in folders:
            raise ProjectError(f"'{self.spec}' has no dataset '{dataset}'; {nearest(dataset, folders)}")
        return self.root / str(folders[dataset])

    def _answers_of(self, cell: Cell) -> pl.DataFrame:
        samples = _frame_of(cell.samples.table)
        table = samples.select("sample_id", *(name for name in OF_SAMPLES if name in samples.columns))
        base, source = self.answer_source(cell.model, cell.variant)
        texts = self.texts(base, cell.samples.name, source)
        table = table.join(texts.select("sample_id", *OF_ANSWERS).collect(), on="sample_id", how="left", maintain_order="left")
        own = [
            name
            for name, values in cell.columns.items()
            if values.ndim == 1 and name not in OMITTED_COLUMNS and not name.startswith(f"{MARKED_BY}/") and not np.isnan(values).all()
        ]
        more: dict[str, Any] = {f"uncertainty[{name}]": values for name, values in cell.uncertainties.items()}
        for setting, of in cell.settings.items():
            more[f"is_calibration[{setting}]"] = of.is_calibration
            more |= {f"{column}[{setting}/{score}]": values for score, sets in of.scores.items() for column, values in sets.items()}
        frame = self._frame(cell, own, more)
        return frame.select("model", "dataset", "variant").hstack(table).hstack(frame.drop("model", "dataset", "variant", "sample_id"))

    @staticmethod
    def _frame(cell: Cell, names: Iterable[str], extra_columns: Mapping[str, Any] = {}) -> pl.DataFrame:
        """Return columns of a cell with model, dataset, variant and sample_id; NaN becomes null."""
        columns = {name: cell.columns[name] for name in names if name in cell.columns} | dict(extra_columns)
        frame = pl.DataFrame({name: pl.Series(values).fill_nan(None) for name, values in columns.items()})
        flags = [name for name in frame.columns if name in FLAGS or name.startswith(("covered[", "is_calibration["))]
        counts = [name for name in frame.columns if name == "predicted" or name.startswith("set_size[")]
        return frame.with_columns(pl.col(flags).cast(pl.Boolean), pl.col(counts).cast(pl.Int64)).select(
            *(pl.lit(text).alias(name) for name, text in cell.place.items()), pl.Series("sample_id", cell.samples.ids.to_pylist()), pl.all()
        )


def _frame_of(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
