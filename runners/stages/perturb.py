"""The `perturb` stage: one perturbation at one strength, made of whole datasets once and written down.

For perturbations that a model writes or looks for, so that every model is asked the same and nothing is paid for twice; and for any
other that is to be kept as images (`materialize: true`). What it writes is a dataset: `samples.parquet` with the questions as they
then are, and `images/` with the images that were changed, named by their content; an unchanged image lies in the dataset itself.
"""

import shutil
from collections import Counter
from functools import partial
from pathlib import Path

from qualm.registry.plugins.registry import get, load
from qualm.runners.contracts.generators import GeneratorError
from qualm.runners.contracts.perturbations import MODALITIES, PerturbContext, PerturbError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.data_cards import DataCard, parents_and_sources, write_card
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder
from qualm.runners.data.perturbed import DatasetPerturber
from qualm.runners.data.scene_graphs import SceneGraphError
from qualm.runners.data.splits import split_rule
from qualm.runners.prompts.templates import PromptError
from qualm.runners.runtime.stage import Stage, StageError

KIND = StageKind(
    title="Perturb by {variant}",
    reads=("datasets", "cards"),
    writes={"perturbed": "perturbed/{variant}/{dataset}", "cards": "perturbed/{variant}/{dataset}.md"},
    colour="#ff9da6",
    seeded=True,
    costly=True,
)


def run(stage: Stage) -> None:
    """Apply the stage's perturbation to each of its datasets; publish a folder for each.

    Samples that it cannot be applied to are left out and counted on the dataset's card.
    """
    chosen = stage.params
    plugin = get("perturbations", chosen["plugin"])
    if (modality := plugin.declares.get("MODALITY")) not in MODALITIES:
        raise StageError(f"{plugin.path}: MODALITY: expected one of {', '.join(MODALITIES)}, got {modality!r}")
    function = partial(load("perturbations", plugin.name), **chosen["args"])
    context = PerturbContext(stage.settings, stage.seed, chosen["variant"])
    folders: list[tuple[Path, str]] = []
    versions, sources = parents_and_sources(stage.inputs["datasets"], stage.inputs["cards"].values())
    try:
        for number, (name, folder) in enumerate(stage.inputs["datasets"].items()):
            dataset = DatasetFolder(name, Path(folder), split_rule(chosen, name))
            target = stage.scratch / str(number)
            shutil.rmtree(target, ignore_errors=True)
            before = Counter(context.dropped)
            applied = DatasetPerturber(stage, dataset, plugin, function, context).write(target)
            left_out = {f"samples: {reason}": n for reason, n in sorted((Counter(context.dropped) - before).items())}
            others = len(dataset.samples) - applied - sum(left_out.values())
            left_out |= {"samples: it cannot be applied to": others} if others > 0 else {}
            how = {key: chosen[key] for key in ("plugin", "args", "modality")}
            card = DataCard(f"{name}, {chosen['variant']}", stage.key, "perturbed", how, versions[number : number + 1], sources, left_out)
            write_card(stage, card, target, stage.outputs["cards"][name])
            folders.append((target, stage.outputs["perturbed"][name]))
    except (PerturbError, GeneratorError, PromptError, SceneGraphError, BrokenSampleError) as error:
        raise StageError(f"variant {chosen['variant']}: {error}") from error
    finally:
        stage.count(**context.counters)
        stage.count(**{f"dropped ({reason})": n for reason, n in sorted(context.dropped.items())})
    for path, place in folders:
        stage.publish(path, place)
