"""The exact counterfactual of a scene: rendered without the object, with hidden parts shown and shadows gone."""

import PIL.Image

from qualm.runners.contracts.inpainters import Inpainter, Job
from qualm.runners.contracts.pairs import PairContext, PairError


def rerender(context: PairContext) -> Inpainter:
    """Return an inpainter (jobs -> images) that renders scenes without the objects to remove.

    Raises:
        PairError: a target without a scene graph.
    """
    return lambda jobs: [_drawn(job) for job in jobs]


def _drawn(job: Job) -> PIL.Image.Image:
    from qualm.registry.scenes.removal import remove_objects
    from qualm.registry.scenes.render import render

    if job.target.scene is None:
        raise PairError(f"inpaint rerender: '{job.target.key}' has no scene graph to draw it from; use telea, navier_stokes or lama")
    return PIL.Image.fromarray(render(remove_objects(job.target.scene, job.thing.objects)))
