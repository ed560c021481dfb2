"""Paths, code and seeds that the stages of one plan share.

Stages take every path from here, so that one reads what another writes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from qualm.compiler.plan.demands import group_asked_alike, reads_inside
from qualm.compiler.plan.order import clash
from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.plan.sources import Sources
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.plugin_ref import DATA, Ref, slug
from qualm.compiler.spec.resolved import DataUse, ModelUse, PairSetUse, Resolved
from qualm.registry.parameters import nested_paths
from qualm.registry.places import is_checkout
from qualm.registry.plugins.engine_versions import split_by_version
from qualm.registry.plugins.registry import DVC_IGNORES, ROOT, Plugin
from qualm.registry.system import textfiles
from qualm.runners.contracts.stages import stage_kind, stage_kinds

MAX_STAGES = 100
"""Maximum number of stages before each model gets one stage for all datasets, as DVC's cost grows with the square."""


def card_path(folder: str) -> str:
    """Return "FOLDER.md", the path of a dataset folder's card."""
    return f"{folder}.md"


def with_card(folder: str) -> dict[str, Any]:
    return {"dataset": folder, "card": card_path(folder)}


class Layout:
    """Paths of the inputs and outputs of a resolved spec's stages."""

    def __init__(self, resolved: Resolved, root: Path, sources: Sources | None = None) -> None:
        self.resolved, self.root, self.sources = resolved, root, sources or Sources()
        self._codes: dict[tuple[frozenset[str], bool], tuple[tuple[str, ...], str, Mapping[str, int]]] = {}
        self.code_root = root if is_checkout(root) else ROOT
        self.evaluated = resolved.evaluated
        self.data = {d.label: self.place(_maker(d), "dataset", dataset=d.label) for d in resolved.data}
        """Dataset -> folder of the questions that models are asked."""
        curated = [d for d in resolved.datasets if d.reviews is not None]
        self.whole = {d.label: self.data[d.label] for d in curated}
        """Reviewed dataset -> folder before the review."""
        # Everything but the maker and `curate` reads the reviewed dataset.
        self.data |= {d.label: self.place("curate", "dataset", dataset=d.label) for d in curated}
        self.generations = {
            m.ref.label: {d.label: self.place("infer", "generations", model=m.ref.label, dataset=d.label) for d in self.evaluated}
            for m in resolved.models
        }
        """Model -> dataset -> folder of answers."""
        inside = [(m, d) for m in resolved.models for d in self.evaluated if reads_inside(resolved, m, d)]
        self.internals: dict[str, dict[str, str]] = {m.ref.label: {} for m, _ in inside}
        """Model -> dataset -> folder of hidden states and attention, if anything reads them."""
        for m, d in inside:
            self.internals[m.ref.label][d.label] = self.place("infer", "internals", model=m.ref.label, dataset=d.label)
        self.perturbed = {
            p.label: {d.label: self.place("perturb", "perturbed", variant=p.label, dataset=d.label) for d in self.perturbed_by(p)}
            for p in resolved.perturbations
            if p.is_stage
        }
        """Variant -> dataset -> perturbed samples that a stage stores."""
        self.perturbing = [p for p in resolved.perturbations if p.label not in self.perturbed]
        """Perturbations that are applied whenever samples are read."""
        # An estimate that is too high only makes fewer, longer stages.
        self.coarse = self._stages_by_data_set() > MAX_STAGES
        whole = [m.ref.label for m in resolved.models if self.coarse and len(group_asked_alike(resolved, m)) == 1]
        self.folders = frozenset(path.rpartition("/")[0] for label in whole for path in self.generations[label].values())

    def perturbed_by(self, p: Ref) -> list[DataUse]:
        return [d for d in self.evaluated if p in self.resolved.perturbations_of(d)]

    def _stages_by_data_set(self) -> int:
        r = self.resolved
        makes = len(self.data) + len(self.whole) + sum(len(s.recipes) for s in r.pairs) + len(r.finetunes) + len(self.perturbed)
        return makes + len(r.models) * len(self.evaluated) + sum(kind.is_single for kind in stage_kinds().values())

    def project_path(self, path: Path) -> str | None:
        """Return a file's path from the project's root; None if it is no project file."""
        below = _below(path, self.root)
        return None if below is None or "site-packages" in below.split("/") else below

    @property
    def answered(self) -> dict[str, Any]:
        """Return {"datasets": {dataset: path}, "generations": {model: {dataset: path}}}."""
        return {"datasets": {d.label: self.data[d.label] for d in self.evaluated}, "generations": self.generations}

    @property
    def is_answered(self) -> bool:
        return bool(self.resolved.models and self.evaluated)

    def tables(self, stages: Iterable[PlannedStage]) -> dict[str, Any]:
        """Return {key: path or paths} of datasets, answers, internals and single stages' outputs."""
        written = {key: path for stage in stages if stage_kind(stage.kind).is_single for key, path in stage.outputs.items()}
        others = {"perturbed": self.perturbed, "internals": self.internals}
        return {**self.answered, **{key: files for key, files in others.items() if files}, **written}

    def place(self, kind: str, key: str, **names: str) -> str:
        """Return the path of output `key` of a stage kind; `names` fill its placeholders."""
        below = stage_kind(kind).writes[key].format(**{name: slug(label) for name, label in names.items()})
        return f"results/{self.resolved.spec.name}/{below}"

    def places(self, kind: str, keys: Iterable[str], **names: str) -> dict[str, str]:
        return {key: self.place(kind, key, **names) for key in keys}

    def stage(
        self,
        kind: str,
        params: dict[str, Any],
        inputs: dict[str, Any],
        outputs: dict[str, Any],
        used: Iterable[Ref | Plugin] = (),
        *,
        name: str = "",
        **names: str,
    ) -> PlannedStage:
        """Return a planned stage with its code, engine versions and seed.

        Args:
            inputs: key -> path or mapping of paths.
            name: name of the stage; by default its kind and the `names`.

        Raises:
            SpecError: a key has a name that DVC's run cache ignores.
        """
        of, used = stage_kind(kind), tuple(used)
        plugins: list[Plugin] = [p for u in used for p in (u.plugins if isinstance(u, Ref) else [u])]
        # An artifact that is an input already is tracked by that path; DVC refuses to depend on it twice.
        input_paths = set(nested_paths(inputs))
        artifacts = {
            path.removeprefix(f"{DATA}/"): path for u in used if isinstance(u, Ref) for path in u.artifacts if path not in input_paths
        }
        # Separate from the other inputs: stages do not read these by key, but run again if one changes.
        if artifacts:
            inputs = {**inputs, "artifacts": artifacts}
        modules = [of.module, *(p.module for p in plugins)]
        code, package, engine = self._code(frozenset(modules), of.costly)
        for key in _keys([params, inputs, outputs]) & DVC_IGNORES:
            raise SpecError([clash(self.resolved, f"DVC's run cache ignores changes of a parameter with the name '{key}'")])
        seed = self.resolved.seed if of.seeded else 0
        refs = tuple(u for u in used if isinstance(u, Ref))
        name, title = name or "-".join([kind, *map(slug, names.values())]), of.title.format(**names)
        return PlannedStage(name, kind, title, params, inputs, outputs, seed, code, package, self.folders, refs, engine)

    def _code(self, modules: frozenset[str], costly: bool) -> tuple[tuple[str, ...], str, Mapping[str, int]]:
        """Return (project files, digest of installed files, engine versions) that modules need.

        Args:
            costly: count our code by declared versions instead of by content.
        """
        if (modules, costly) not in self._codes:
            # Costly stages depend on declared versions of our code; cheap ones on every byte, since running them again is harmless.
            by_name = by_version if costly else lambda *of: ({}, closure(*of))
            engine, files = by_name(modules, self.code_root, self.sources)
            paths = {name: self.project_path(path) for name, path in files.items()}
            # DVC cannot track installed files: their digest among the parameters stands for them.
            elsewhere = {name: files[name] for name, path in paths.items() if path is None}
            code = tuple(sorted(path for path in paths.values() if path is not None))
            self._codes[modules, costly] = code, content_digest(elsewhere) if elsewhere else "", engine
        return self._codes[modules, costly]


def _maker(data: DataUse) -> str:
    return "assemble" if isinstance(data, PairSetUse) else "data"


def read_by(kind: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items of `tables` whose keys a stage kind reads."""
    return {key: tables[key] for key in stage_kind(kind).reads if key in tables}


def splits(datasets: Sequence[DataUse]) -> dict[str, Any]:
    """Return {"splits": {dataset: its splits}} of datasets that name some; {} if none does."""
    by_dataset = {d.label: list(d.splits) for d in datasets if d.splits is not None}
    return {"splits": by_dataset} if by_dataset else {}


def subset(layout: Layout, model: ModelUse) -> dict[str, int]:
    """Return {"per_category", "seed"} of a model's subset of questions; it must have one."""
    assert model.entry.per_category is not None
    return {"per_category": model.entry.per_category, "seed": layout.resolved.seed}


def subsets(layout: Layout) -> dict[str, Any]:
    """Return {"subsets": {model: parameters of its subset}}; {} if no model has one."""
    by_model = {m.ref.label: subset(layout, m) for m in layout.resolved.models if m.entry.per_category is not None}
    return {"subsets": by_model} if by_model else {}


def variant(perturbation: Ref) -> dict[str, Any]:
    """Return {"variant", "plugin", "modality", "args"} of a perturbation."""
    return {
        "variant": perturbation.label,
        "plugin": perturbation.plugin.name,
        "modality": perturbation.plugin.declares.get("MODALITY"),
        "args": perturbation.args,
    }


def variants(layout: Layout, perturbations: Iterable[Ref]) -> list[dict[str, Any]]:
    """Return the parameters of each perturbation, with "made": True if a stage stores it."""
    return [{**variant(p), **({"made": True} if p.label in layout.perturbed else {})} for p in perturbations]


def _keys(tree: Any) -> set[str]:
    if isinstance(tree, Mapping):
        return set(tree) | _keys(list(tree.values()))
    return set().union(*map(_keys, tree)) if isinstance(tree, list) else set()


def closure(modules: Iterable[str], root: Path, sources: Sources | None = None) -> dict[str, Path]:
    """Return {relative path or module name: file} of modules, assets and their imports.

    Empty package files are left out. Files below the root are named by their relative paths.
    """
    files = (sources or Sources()).closure(modules, root)
    return _by_path({name: path for name, path in files.items() if path.name != "__init__.py" or path.stat().st_size}, root)


def by_version(modules: Iterable[str], root: Path, sources: Sources | None = None) -> tuple[dict[str, int], dict[str, Path]]:
    """Return ({kind: version if above 1}, {name: file}) of all that modules import."""
    modules = list(modules)
    _, versions, files = split_by_version(modules, (sources or Sources()).closure(modules, root))
    return {kind: version for kind, version in versions.items() if version != 1}, _by_path(files, root)


def _by_path(files: Mapping[str, Path], root: Path) -> dict[str, Path]:
    return {_below(path, root) or name: path for name, path in files.items()}


def _below(path: Path, root: Path) -> str | None:
    """Return a file's path relative to a folder, as POSIX text; None if elsewhere."""
    # Of texts: `Path.relative_to` takes a tenth of the time of a plan.
    start = f"{root.as_posix()}/"
    return path.as_posix().removeprefix(start) if path.as_posix().startswith(start) else None


def content_digest(files: Mapping[str, Path]) -> str:
    """Return one SHA-256 over the names and contents of all files."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{_file_digest(path)}\n".encode())
    return digest.hexdigest()


@cache
def _file_digest(path: Path) -> str:
    return hashlib.sha256(textfiles.read_bytes(path, 1 << 30)).hexdigest()
