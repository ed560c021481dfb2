"""Results of a spec as typed tables (`qualm.load`), and its answers with all measurements."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.plan.plan import leaves
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.compare import ComparisonSide, run_time_stage, side_here
from qualm.compiler.results.integrity import ChangedResultsWarning, changed_results
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.registry.plugins.column_names import MARKED_BY, RATED_BY

if TYPE_CHECKING:
    import polars as pl
    from PIL.Image import Image

    from qualm.runners.scoring.cells import Cell

OF_SAMPLES = ("question", "references", "choices", "answer_index", "category", "answerable", "split", "group", "image_id", "pair_id")
OF_ANSWERS = ("text", "thinking", "no_answer")
FLAGS = ("pred_is_idk", "gt_is_idk", "hedges", "answerable", "says_uncertain", "input_changed")
"""Columns of cells that are yes or no."""
OMITTED_COLUMNS = (RATED_BY, "option_probabilities", "answerable", "uncertain", "fold", "right_option", "n_options", "in_words")
"""Columns of cells that a table of answers has in another form, or that mean nothing outside of scoring."""


def load(spec: str | None = None, project: str | Path | None = None) -> SpecResults:
    """Load the results of a spec that was run, from its project's `results/`.

    Args:
        spec: Its name, or the path of its file; the project's default one without.
        project: A folder of the project; the working directory without.

    Returns:
        Tables as Polars data frames (`.to_pandas()` makes pandas of each).

    Warns:
        ChangedResultsWarning: a file that is read differs from the hash that dvc.lock records, at each reading.

    Raises:
        ProjectError: there is no such project, spec or result; it says what to do.

    Example:
        >>> import qualm                                              # doctest: +SKIP
        >>> results = qualm.load("quickstart")                        # doctest: +SKIP
        >>> results.scores.filter(metric="accuracy")                  # doctest: +SKIP
        >>> results.answers("base", "scenes").filter(correct=0)       # doctest: +SKIP
    """
    return SpecResults(Project(Path(project) if project is not None else None), spec, verify=True)


class SpecResults:
    def __init__(self, project: Project, spec: str | None, side: ComparisonSide | None = None, verify: bool = False) -> None:
        """Read this checkout's results, or another state's; `verify` warns of changed files."""
        self._verify = verify
        self.side = side or side_here(project, spec)
        """Score stage and models, for comparisons."""
        self._stage = self.side.stage
        self.spec: str = side.name if side else project.spec_path(spec).stem

    @property
    def root(self) -> Path:
        """Return the folder that paths of inputs and outputs are relative to."""
        return self.side.root

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Return the scored files: `datasets`, `generations`, `judgements`, `sets`..."""
        return self._stage.inputs

    @property
    def is_scored(self) -> bool:
        return Path(self.root, self._stage.outputs["scores"]).is_file()

    @property
    def models(self) -> list[str]:
        """Return the scored models, with abstaining ones and baselines."""
        return list(self.side.models)

    @property
    def datasets(self) -> list[str]:
        """Return the datasets that models were scored on."""
        return list(self._stage.inputs["datasets"])

    @property
    def tables(self) -> list[str]:
        """Return the names of the tables that scoring wrote, for `table`."""
        return [name for name, path in self._stage.outputs.items() if str(path).endswith(".parquet")]

    def table(self, name: str) -> pl.DataFrame:
        """Return a table as written: `rankings`, `comparisons`, `effects`...

        Raises:
            ProjectError: there is none of this name, or it was not made yet.
        """
        if name not in self.tables:
            raise ProjectError(f"'{self.spec}' has no table '{name}'; {nearest(name, self.tables)}")
        self._warn([self._stage.outputs[name]])
        return self._read(self._stage.outputs[name])

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
        self._warn([self._stage.outputs["scores"]])
        return self._read(self._stage.outputs["scores"])

    def answers(self, model: str | None = None, dataset: str | None = None, variant: str | None = "clean") -> pl.DataFrame:
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
        import polars as pl

        for what, name, names in (("model", model, self.models), ("dataset", dataset, self.datasets)):
            if name is not None and name not in names:
                raise ProjectError(f"'{self.spec}' has no {what} '{name}'; {nearest(name, names)}")
        self._warn(leaves(run_time_stage(self.side, set(self.models if model is None else [model])).inputs))
        parts = [self._answers_of(cell) for cell in self._cells(model, dataset, variant)]
        if not parts:
            raise ProjectError(f"'{self.spec}' has no answers under the variant '{variant}'; `variant=None` gives those of all")
        return pl.concat(parts, how="diagonal_relaxed")

    def generations(self, model: str, dataset: str) -> pl.DataFrame:
        """Return a model's answers to a dataset: a row per variant and draw (0 is greedy).

        Raises:
            ProjectError: a name is none of this spec's, or nothing was run yet.
        """
        files = self._stage.inputs["generations"]
        if model not in files:
            raise ProjectError(f"'{self.spec}' has no answers of a model '{model}'; {nearest(model, files)}")
        if dataset not in files[model]:
            raise ProjectError(f"'{model}' was not asked '{dataset}'; {nearest(dataset, files[model])}")
        self._warn([files[model][dataset]])
        return self._read(files[model][dataset])

    def samples(self, dataset: str) -> pl.DataFrame:
        """Return the questions of a dataset, including unscored ones.

        Raises:
            ProjectError: the dataset does not exist or was not built yet.
        """
        self._warn([self._folder(dataset)])
        return self._read(Path(self._folder(dataset)) / "samples.parquet")

    def picture(self, dataset: str, sample_id: str) -> Image | None:
        """Return the unperturbed image of a question; None if it has none.

        Raises:
            ProjectError: there is no such dataset or question, or it has several images, which `pictures` gives.
        """
        images = self.pictures(dataset, sample_id)
        if len(images) > 1:
            raise ProjectError(f"dataset '{dataset}': sample '{sample_id}' has {len(images)} images; `pictures` gives all of them")
        return images[0] if images else None

    def pictures(self, dataset: str, sample_id: str) -> tuple[Image, ...]:
        """Return all unperturbed images of a question, in display order.

        Raises:
            ProjectError: there is no such dataset or question.
        """
        from qualm.runners.data.dataset import DatasetFolder

        ids = self.samples(dataset)["sample_id"].to_list()
        if sample_id not in ids:
            raise ProjectError(f"dataset '{dataset}' has no sample '{sample_id}'; {nearest(sample_id, ids)}")
        return DatasetFolder(dataset, self.root / self._folder(dataset)).item(ids.index(sample_id)).images()

    def __repr__(self) -> str:
        return f"<qualm results of '{self.spec}': {len(self.models)} models, datasets {', '.join(self.datasets)}>"

    def _warn(self, paths: Iterable[str]) -> None:
        for notice in changed_results(self.root, paths) if self._verify else ():
            warnings.warn(notice, ChangedResultsWarning, stacklevel=3)

    def _folder(self, dataset: str) -> str:
        folders = self._stage.inputs["datasets"]
        if dataset not in folders:
            raise ProjectError(f"'{self.spec}' has no dataset '{dataset}'; {nearest(dataset, folders)}")
        return str(folders[dataset])

    def _read(self, path: str | Path) -> pl.DataFrame:
        return self._scan(path).collect()

    def _scan(self, path: str | Path) -> pl.LazyFrame:
        import polars as pl

        from qualm.runners.runtime.records import RecordError, read_schema

        file = self._there(path)
        try:
            read_schema(file)  # refuses a damaged file, which polars would read as late as it can
        except RecordError as error:
            raise ProjectError(f"{error}; `qualm run {self.spec}` makes it anew") from error
        return pl.scan_parquet(file)

    def _there(self, path: str | Path) -> Path:
        file = self.root / path
        if not file.is_file():
            raise ProjectError(f"{file}: not there; `qualm run {self.spec}` makes it, or `dvc pull` fetches what others have computed")
        return file

    def _cells(self, model: str | None, dataset: str | None, variant: str | None) -> Iterator[Cell]:
        from qualm.runners.data.splits import read_scored
        from qualm.runners.runtime.records import RecordError
        from qualm.runners.runtime.stage import StageError
        from qualm.runners.scoring.reading.read_cells import read_cells
        from qualm.runners.scoring.reading.tables import Tables

        stage = run_time_stage(self.side, {model} if model is not None else set(self.models))
        names = self.datasets if dataset is None else [dataset]
        try:
            datasets = [read_scored(stage, name, stage.inputs["datasets"][name]) for name in names]
            tables = Tables(stage, datasets)
            for samples in datasets:
                for cell in read_cells(stage, samples, tables):
                    if model in (None, cell.model) and variant in (None, cell.variant):
                        yield cell
        except (RecordError, StageError) as error:
            raise ProjectError(f"{error}; `qualm plan` shows what is missing, `dvc pull` fetches what others have computed") from error

    def _answers_of(self, cell: Cell) -> pl.DataFrame:
        import numpy as np
        import polars as pl

        samples = pl.from_arrow(cell.samples.table)
        assert isinstance(samples, pl.DataFrame)
        table = samples.select("sample_id", *(name for name in OF_SAMPLES if name in samples.columns))
        base, variant = answer_source(cell.model, cell.variant)
        generations = self._scan(self._stage.inputs["generations"][base][cell.samples.name])
        columns = generations.collect_schema().names()
        greedy = generations.filter((pl.col("draw") == 0) & (pl.col("variant") == variant)).select(
            "sample_id", *(name for name in OF_ANSWERS if name in columns)
        )
        table = table.join(greedy.collect(), on="sample_id", how="left", maintain_order="left")
        own = {
            name: values
            for name, values in cell.columns.items()
            if values.ndim == 1 and name not in OMITTED_COLUMNS and not name.startswith(f"{MARKED_BY}/") and not np.isnan(values).all()
        }
        own |= {f"uncertainty[{name}]": values for name, values in cell.uncertainties.items()}
        for setting, of in cell.settings.items():
            own[f"is_calibration[{setting}]"] = of.is_calibration
            own |= {
                f"{column}[{setting}/{score}]": values
                for score, sets in of.scores.items()
                for column, values in sets.items()
                if column != "is_calibration"
            }
        frame = pl.DataFrame({name: pl.Series(values).fill_nan(None) for name, values in own.items()})
        flags = [name for name in frame.columns if name in FLAGS or name.startswith(("covered[", "is_calibration["))]
        whole = [name for name in frame.columns if name == "predicted" or name.startswith("set_size[")]
        frame = frame.with_columns(pl.col(flags).cast(pl.Boolean), pl.col(whole).cast(pl.Int64))
        named = [
            pl.lit(text).alias(name) for name, text in (("model", cell.model), ("dataset", cell.samples.name), ("variant", cell.variant))
        ]
        return table.hstack(frame).select(*named, pl.all())


def answer_source(model: str, variant: str) -> tuple[str, str]:
    """Return the model and variant whose stored answers a scored model uses.

    An abstaining model uses its base model's answers, a baseline those under its variant without the image.
    """
    from qualm.runners.scoring.reading.read_cells import BLIND_VARIANTS

    base, _, way = model.partition("+")
    return base, way if way in BLIND_VARIANTS else variant
