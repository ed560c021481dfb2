"""Steps from targets to painted images: proofs, masks, dilation, controls, inpainting; every failure is counted.

Masks are made batch by batch in one thread, since a model may make them; images are painted on threads, in order. The result does not
depend on batches or threads.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
import PIL.Image

from qualm.registry.scenes.contrast import parse_query, possible_answers, prove
from qualm.registry.scenes.removal import remove_objects, silhouette
from qualm.registry.scenes.render import render
from qualm.runners.contracts.inpainters import Inpainter, Job
from qualm.runners.contracts.masks import Mask, Masker, MaskRequest, dilated
from qualm.runners.contracts.pairs import PairContext
from qualm.runners.contracts.saliency import Target, Thing
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder
from qualm.runners.data.removal_quality import Removal, measure_removal
from qualm.runners.runtime.prefetch import map_ahead

CONTROLS = 4
"""Objects or places to try as a control before the target is dropped."""
ELSEWHERE = Thing("another place", "other places")
"""Control of a photograph without other known objects: the target's mask, moved."""
CHUNK = 16
"""Images that one thread paints at a time."""

T = TypeVar("T")


@dataclass(frozen=True)
class Planned:
    """A target, its inpainting jobs, and a proof in words of each job from the scene graph."""

    target: Target
    jobs: tuple[Job, ...]
    """The target object, and a control if wanted."""
    proofs: tuple[str, ...]
    """Proof of the pair and of the control, from the scene graph; "" without one."""


@dataclass(frozen=True)
class Painted:
    """A target with its inpainted images, encoded, and measures of the removal."""

    plan: Planned
    pictures: tuple[bytes, ...]
    """PNG, one for each job."""
    removal: Removal | None
    """Quality of the removal, for scenes."""


@dataclass(frozen=True)
class Painter:
    """Inpainter of target objects and, if wanted, of control objects; failures are counted."""

    context: PairContext
    source: DatasetFolder
    masker: Masker
    inpainter: Inpainter
    dilate: int
    largest: float
    control: bool

    def paint(self, targets: Iterable[Target]) -> Iterator[Painted]:
        """Yield each target with its inpainted images, in order; failures are dropped and counted."""
        places = {row["sample_id"]: i for i, row in enumerate(self.source.samples)}
        size = max(CHUNK, self.context.settings.batch_size)
        planned = (part for batch in batches(targets, size) for part in batches(self._plan(batch, places), CHUNK))
        for painted in map_ahead(self._paint, planned, self.context.settings.workers):
            yield from painted

    def _plan(self, targets: Iterable[Target], places: dict[str, int]) -> list[Planned]:
        proofs = [(item, proof) for target in targets for item, proof in self._requests(target, places)]
        shapes = self.masker([item for item, _ in proofs]) if proofs else []
        masked: list[tuple[Planned, np.ndarray]] = []
        for (item, proof), shape in zip(proofs, shapes, strict=True):
            grown = self._dilated(shape)
            if isinstance(grown, str) or isinstance(shape, str):
                self.context.drop(str(grown))
                continue
            masked.append((Planned(item.target, (Job(item.target, item.thing, item.picture, grown),), (proof,)), shape))
        if not self.control:
            return [plan for plan, _ in masked]
        plans = []
        for (plan, _), other in zip(masked, self._find_controls(masked), strict=True):
            if other is None:
                self.context.drop("no other thing as a control")
            else:
                plans.append(Planned(plan.target, (*plan.jobs, other[0]), (*plan.proofs, other[1])))
        return plans

    def _requests(self, target: Target, places: dict[str, int]) -> Iterator[tuple[MaskRequest, str]]:
        proof = "" if target.scene is None else prove_removal(target)
        if proof is None:
            self.context.drop("cannot be proved")
            return
        try:
            picture = self.source.image(places[target.row["sample_id"]])
        except BrokenSampleError:
            picture = None
        if picture is None:
            self.context.drop("image cannot be decoded")
            return
        yield MaskRequest(target, target.thing, picture), proof

    def _dilated(self, shape: Mask) -> Mask:
        if isinstance(shape, str):
            return shape
        grown = dilated(shape, self.dilate)
        return "mask covers the image" if grown.all() or grown.mean() > self.largest else grown

    def _find_controls(self, masked: Sequence[tuple[Planned, np.ndarray]]) -> list[tuple[Job, str] | None]:
        """Return, per target, a control: (job that removes something else, proof), or None.

        For a photograph without other known objects, move the target's own dilated mask.
        """
        controls = [None if plan.target.others or plan.target.scene else self._move_mask(plan, shape) for plan, shape in masked]
        orders = [self._order(plan.target) for plan, _ in masked]
        for turn in range(CONTROLS):
            open_ = [i for i in range(len(masked)) if controls[i] is None and turn < len(orders[i])]
            tried = [MaskRequest(masked[i][0].target, orders[i][turn], masked[i][0].jobs[0].picture) for i in open_]
            for i, item, shape in zip(open_, tried, self.masker(tried) if tried else [], strict=True):
                grown, proof = self._dilated(shape), prove_control(item.target, item.thing)
                if not isinstance(grown, str) and proof is not None and not (grown & masked[i][1]).any():
                    controls[i] = Job(item.target, item.thing, item.picture, grown), proof
        return controls

    def _move_mask(self, plan: Planned, target_mask: np.ndarray) -> tuple[Job, str] | None:
        """Return (a job on the mask moved off the target, no proof: ""); None if nowhere fits."""
        (job,) = plan.jobs
        rng = self.context.rng("control", plan.target.key)
        places = np.argwhere(job.mask)
        first, last = places.min(0), places.max(0)
        for _ in range(CONTROLS):
            moved = np.zeros_like(job.mask)
            moved[tuple((places - first + rng.integers(0, moved.shape - (last - first))).T)] = True
            if not (moved & target_mask).any():
                return Job(plan.target, ELSEWHERE, job.picture, moved), ""
        return None

    def _order(self, target: Target) -> list[Thing]:
        order = self.context.rng("control", target.key).permutation(len(target.others))
        return [target.others[k] for k in order.tolist()]

    def _paint(self, plans: Sequence[Planned]) -> list[Painted]:
        inpainted = iter(self.inpainter([job for plan in plans for job in plan.jobs]))
        results = []
        for plan in plans:
            pictures = [next(inpainted) for _ in plan.jobs]
            results.append(Painted(plan, tuple(map(_png, pictures)), _removal(plan.jobs[0], pictures[0])))
        return results


def prove_removal(target: Target) -> str | None:
    """Return a proof that a scene's question is unanswerable without its object, or None."""
    assert target.scene is not None
    reduced = remove_objects(target.scene, target.thing.objects)
    try:
        if possible_answers(parse_query(target.question), reduced):
            return None
        why = prove(target.scene, target.question, target.answer, target.question, reduced)
    except ValueError:
        return None
    return f"one image has the only answer {target.answer!r}; in the other {why}"


def prove_control(target: Target, other: Thing) -> str | None:
    """Return the proof that the answer survives removing `other`; None if not, "" if no scene."""
    if target.scene is None:
        return ""
    left = possible_answers(parse_query(target.question), remove_objects(target.scene, other.objects))
    return f"without the {other.name}, {target.answer!r} is still the only possible answer" if left == (target.answer,) else None


def _removal(job: Job, painted: PIL.Image.Image) -> Removal | None:
    scene = job.target.scene
    if scene is None:
        return None
    truth = render(remove_objects(scene, job.thing.objects))
    return measure_removal(np.asarray(painted), np.asarray(job.picture), truth, job.mask, silhouette(scene, job.thing.objects))


def batches(items: Iterable[T], n: int) -> Iterator[list[T]]:
    source = iter(items)
    while batch := list(islice(source, n)):
        yield batch


def _png(picture: PIL.Image.Image) -> bytes:
    with io.BytesIO() as out:
        picture.save(out, "PNG", compress_level=4)
        return out.getvalue()
