"""What the stages of one plan share: where each thing that a spec makes will lie, and how a stage comes by its code and seed.

No stage names a path of its own: what one writes and the next reads is the same only because both take it from here.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from qualm.compiler.plan.demands import asked_alike, reads_inside
from qualm.compiler.plan.order import clash
from qualm.compiler.plan.plan import PlannedStage, leaves
from qualm.compiler.plan.sources import Sources
from qualm.compiler.resolve.resolved import DatasetUse, ModelUse, PairSetUse, Resolved
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.plugin_ref import DATA, Ref, slug
from qualm.registry.formats import textfiles
from qualm.registry.places import is_checkout
from qualm.registry.plugins.rule import DVC_IGNORES, ROOT, Plugin
from qualm.runners.contracts.stages import stage_kind, stage_kinds
from qualm.runners.runtime.code_digest import parted

MAX_STAGES = 100
"""Beyond this many stages one model's answers to all data sets become one stage (DVC's cost grows with the square)."""


def card(folder: str) -> str:
    """Where the card of a data set lies: beside its folder."""
    return f"{folder}.md"


def with_card(folder: str) -> dict[str, Any]:
    """A data set and its card."""
    return {"dataset": folder, "card": card(folder)}


class Layout:
    """A resolved spec and the place of everything that its stages make."""

    def __init__(self, resolved: Resolved, root: Path, sources: Sources | None = None) -> None:
        self.resolved, self.root, self.sources = resolved, root, sources or Sources()
        self._codes: dict[tuple[frozenset[str], bool], tuple[tuple[str, ...], str, Mapping[str, int]]] = {}
        self.code_root = root if is_checkout(root) else ROOT
        self.evaluated = resolved.evaluated
        self.data = {d.label: self.place(_maker(d), "dataset", dataset=d.label) for d in resolved.data}
        """What models are asked, by data set."""
        curated = [d for d in resolved.datasets if d.reviews is not None]
        self.whole = {d.label: self.data[d.label] for d in curated}
        """Data sets that people reviewed, before anything is left out of them."""
        # From here on everything else reads what people kept; only the maker and `curate` know the whole (`self.whole`).
        self.data |= {d.label: self.place("curate", "dataset", dataset=d.label) for d in curated}
        self.generations = {
            m.ref.label: {d.label: self.place("infer", "generations", model=m.ref.label, dataset=d.label) for d in self.evaluated}
            for m in resolved.models
        }
        """Answers, by model and data set."""
        inside = [(m, d) for m in resolved.models for d in self.evaluated if reads_inside(resolved, m, d)]
        self.internals: dict[str, dict[str, str]] = {m.ref.label: {} for m, _ in inside}
        """What was inside them meanwhile, by model and data set, where anything reads that."""
        for m, d in inside:
            self.internals[m.ref.label][d.label] = self.place("infer", "internals", model=m.ref.label, dataset=d.label)
        self.perturbed = {
            p.label: {d.label: self.place("perturb", "perturbed", variant=p.label, dataset=d.label) for d in self.perturbed_by(p)}
            for p in resolved.perturbations
            if p.is_stage
        }
        """Perturbed data sets that stages make, by variant and data set."""
        self.perturbing = [p for p in resolved.perturbations if p.label not in self.perturbed]
        """Perturbations that are made anew wherever samples are read."""
        # Decided by counts that do not depend on it; the estimate may be too high, which only makes fewer and longer stages.
        self.coarse = self._stages_by_data_set() > MAX_STAGES
        whole = [m.ref.label for m in resolved.models if self.coarse and len(asked_alike(resolved, m)) == 1]
        self.folders = frozenset(path.rpartition("/")[0] for label in whole for path in self.generations[label].values())

    def perturbed_by(self, p: Ref) -> list[DatasetUse | PairSetUse]:
        """The data sets that are asked under a perturbation."""
        return [d for d in self.evaluated if p in self.resolved.perturbations_of(d)]

    def _stages_by_data_set(self) -> int:
        """How many stages there would be, were every data set answered in one of its own."""
        r = self.resolved
        makes = len(self.data) + len(self.whole) + sum(len(s.recipes) for s in r.pairs) + len(r.finetunes) + len(self.perturbed)
        return makes + len(r.models) * len(self.evaluated) + sum(kind.once for kind in stage_kinds().values())

    def is_of_project(self, path: Path) -> bool:
        """Whether a file is the project's own; packages may be installed in an environment that lies within its folder."""
        return path.is_relative_to(self.root) and "site-packages" not in path.relative_to(self.root).parts

    @property
    def answered(self) -> dict[str, Any]:
        """What models were asked and what they answered, as inputs."""
        return {"datasets": {d.label: self.data[d.label] for d in self.evaluated}, "generations": self.generations}

    @property
    def is_answered(self) -> bool:
        """Whether models answer anything."""
        return bool(self.resolved.models and self.evaluated)

    def tables(self, stages: Iterable[PlannedStage]) -> dict[str, Any]:
        """What a stage can read after these: data sets, answers, and what kinds write of which a spec has one stage."""
        written = {key: path for stage in stages if stage_kind(stage.kind).once for key, path in stage.outputs.items()}
        others = {"perturbed": self.perturbed, "internals": self.internals}
        return {**self.answered, **{key: files for key, files in others.items() if files}, **written}

    def place(self, kind: str, key: str, **names: str) -> str:
        """Where a kind of stage writes the output of this key."""
        below = stage_kind(kind).writes[key].format(**{name: slug(label) for name, label in names.items()})
        return f"results/{self.resolved.spec.name}/{below}"

    def places(self, kind: str, keys: Iterable[str], **names: str) -> dict[str, str]:
        """Where it writes the outputs of these keys."""
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
        """A stage with the code that implements it: its runner's and that of the plugins and references it `used`.

        Args:
            inputs: what it reads, by key: a path, or a mapping of paths.
            name: of the stage; by default its kind and the `names`.

        Raises:
            SpecError: a key has a name that DVC's run cache does not see.
        """
        of, used = stage_kind(kind), tuple(used)
        plugins: list[Plugin] = [p for u in used for p in (u.plugins if isinstance(u, Ref) else [u])]
        # An artifact that is an input already is tracked by that path; DVC refuses to depend on it twice.
        input_paths = set(leaves(inputs))
        artifacts = {
            path.removeprefix(f"{DATA}/"): path for u in used if isinstance(u, Ref) for path in u.artifacts if path not in input_paths
        }
        # Kept apart from a stage's own inputs: stages never read these by key, but must run again when one changes.
        if artifacts:
            inputs = {**inputs, "artifacts": artifacts}
        modules = [of.module, *(p.module for p in plugins)]
        code, package, engine = self._code(frozenset(modules), of.costly)
        for key in _keys([params, inputs, outputs]) & DVC_IGNORES:
            raise SpecError([clash(self.resolved, f"the name '{key}' is one that DVC's run cache does not see")])
        seed = self.resolved.seed if of.seeded else 0
        refs = tuple(u for u in used if isinstance(u, Ref))
        name, title = name or "-".join([kind, *map(slug, names.values())]), of.title.format(**names)
        return PlannedStage(name, kind, title, params, inputs, outputs, seed, code, package, self.folders, refs, engine)

    def _code(self, modules: frozenset[str], costly: bool) -> tuple[tuple[str, ...], str, Mapping[str, int]]:
        """What implements stages of these modules: files of the project, the digest of those that lie elsewhere, versions of our own."""
        if (modules, costly) not in self._codes:
            # A stage that costs counts our code by its versions; a cheap one by every byte, since running it again is the safer mistake.
            by_name = by_version if costly else lambda *of: ({}, closure(*of))
            engine, files = by_name(modules, self.code_root, self.sources)
            own = {name: path for name, path in files.items() if self.is_of_project(path)}
            # Installed files lie outside of the project, where DVC cannot track them: a digest among the parameters stands for them.
            elsewhere = {name: path for name, path in files.items() if name not in own}
            code = tuple(sorted(path.relative_to(self.root).as_posix() for path in own.values()))
            self._codes[modules, costly] = code, content_digest(elsewhere) if elsewhere else "", engine
        return self._codes[modules, costly]


def _maker(data: DatasetUse | PairSetUse) -> str:
    """The kind of stage that makes it."""
    return "assemble" if isinstance(data, PairSetUse) else "data"


def read_by(kind: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Those of these tables that a kind of stage reads."""
    return {key: tables[key] for key in stage_kind(kind).reads if key in tables}


def splits(datasets: Sequence[DatasetUse | PairSetUse]) -> dict[str, Any]:
    """The splits that the spec names; nothing for data sets where it leaves the choice to `qualm.runners.data.splits`."""
    by_dataset = {d.label: list(d.splits) for d in datasets if d.splits is not None}
    return {"splits": by_dataset} if by_dataset else {}


def subset(layout: Layout, model: ModelUse) -> dict[str, int]:
    """The part of every data set that a dear model is asked: so many questions of a category, the same ones of any model of that number."""
    assert model.per_category is not None
    return {"per_category": model.per_category, "seed": layout.resolved.seed}


def subsets(layout: Layout) -> dict[str, Any]:
    """By model, where there are any."""
    by_model = {m.ref.label: subset(layout, m) for m in layout.resolved.models if m.per_category is not None}
    return {"subsets": by_model} if by_model else {}


def variant(p: Ref) -> dict[str, Any]:
    """A perturbation, as stages are told of it."""
    return {"variant": p.label, "plugin": p.plugin.name, "modality": p.plugin.declares.get("MODALITY"), "args": p.args}


def variants(layout: Layout, perturbations: Iterable[Ref]) -> list[dict[str, Any]]:
    """These perturbations; `made` are those that stages of their own have made."""
    return [{**variant(p), **({"made": True} if p.label in layout.perturbed else {})} for p in perturbations]


def _keys(tree: Any) -> set[str]:
    if isinstance(tree, Mapping):
        return set(tree) | _keys(list(tree.values()))
    return set().union(*map(_keys, tree)) if isinstance(tree, list) else set()


def closure(modules: Iterable[str], root: Path, sources: Sources | None = None) -> dict[str, Path]:
    """What implements these modules: the names and files of them and of all that they import.

    An empty file of a package says nothing and is left out. Files below the root go by their paths from there.

    Args:
        modules: dotted names, of ours or of other packages.
    """
    files = (sources or Sources()).closure(modules, root)
    return _by_path({name: path for name, path in files.items() if path.name != "__init__.py" or path.stat().st_size}, root)


def by_version(modules: Iterable[str], root: Path, sources: Sources | None = None) -> tuple[dict[str, int], dict[str, Path]]:
    """Return the versions above 1 that stand for our code behind these modules, and the files that count by their content."""
    modules = list(modules)
    _, versions, files = parted(modules, (sources or Sources()).closure(modules, root))
    return {kind: version for kind, version in versions.items() if version != 1}, _by_path(files, root)


def _by_path(files: Mapping[str, Path], root: Path) -> dict[str, Path]:
    return {path.relative_to(root).as_posix() if path.is_relative_to(root) else name: path for name, path in files.items()}


def content_digest(files: Mapping[str, Path]) -> str:
    """SHA-256 of files, names and bytes: what stands for them where they lie outside of the project that uses them."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{_file_digest(path)}\n".encode())
    return digest.hexdigest()


@cache
def _file_digest(path: Path) -> str:
    return hashlib.sha256(textfiles.read_bytes(path, 1 << 30)).hexdigest()
