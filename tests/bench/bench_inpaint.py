"""How well and how fast inpainters remove things from scenes: `python tests/bench/bench_inpaint.py [--scenes N] [--model FOLDER]`.

Every picture is held to the scene drawn again without the thing. `left` and `found` are the matched filter's of
`qualm.runners.data.removal_quality`: the share of the thing that remains, and the share of pictures where that is more than half. With a
model (the small VLM) a second detector is asked "Is there a ...?": the share of pictures where it says yes; the rows `original` and
`rerender` say how far it is to be believed. Last, pairs per second of the whole recipe on one thread, measuring included.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import PIL.Image

from qualm.registry.plugins.registry import load
from qualm.registry.sample import Sample
from qualm.registry.scenes.contrast import ask_about_object
from qualm.registry.scenes.questions import matching_objects
from qualm.registry.scenes.removal import remove_objects, silhouette, traces
from qualm.registry.scenes.render import render
from qualm.registry.scenes.world import make_scene, stream
from qualm.runners.contracts.inpainters import Job
from qualm.runners.contracts.masks import dilated
from qualm.runners.contracts.pairs import PairContext
from qualm.runners.contracts.saliency import Target, Thing
from qualm.runners.data.removal_quality import measure_removal, summarize_removals
from qualm.runners.plugins.pairs.inpainted import inpainted
from qualm.runners.runtime.settings import Settings
from tests.support.data.scenes_folder import scenes_folder

KERNELS = (0, 3, 5, 9, 20)
RADII = {"telea": (1.0, 3.0, 9.0), "navier_stokes": (1.0, 3.0, 9.0)}


def things(level, count):
    """(scene, target, picture, truth, silhouette) of scenes that show more than one thing."""
    from qualm.registry.scenes.contrast import parse_query
    from qualm.registry.scenes.questions import noun_phrase

    index = 0
    while count:
        scene = make_scene(11, level, "bench", index)
        index += 1
        asked = ask_about_object(stream(11, index, "bench"), scene)
        if asked is None or len(scene["objects"]) < 2:
            continue
        count -= 1
        phrase = parse_query(asked.text).of
        objects = matching_objects(scene, phrase)
        what = Thing(noun_phrase(phrase), noun_phrase(phrase, plural=True), objects=objects)
        target = Target(str(index), {}, asked.text, asked.answer, what, scene=scene)
        yield target, render(scene), render(remove_objects(scene, objects)), silhouette(scene, objects)


class Detector:
    """A model of ours, asked whether the thing is there."""

    def __init__(self, folder):
        from qualm.runners.contracts.models import ModelContext
        from qualm.runners.plugins.models.hf_vlm import hf_vlm

        self.model = hf_vlm(ModelContext("detector", folder))
        self.model.load()

    def yes(self, targets, pictures):
        """Share of pictures of which it says yes."""
        from qualm.runners.contracts.models import Decoding, Request
        from qualm.runners.prompts.question import messages

        said = []
        for start in range(0, len(targets), 64):
            asked = [
                Request(self.model.render(messages(f"Is there a {t.thing.name}?")), p)
                for t, p in zip(targets[start : start + 64], pictures[start : start + 64], strict=True)
            ]
            said += [a["answer"].text.lower() == "yes" for a in self.model.answer(self.model.encode(asked), Decoding(3))]
        return f"{np.mean(said):7.1%}"


def report(name, radius, kernel, shadow, items, detector):
    inpaint = load("inpainters", name)(PairContext({}, 0, "bench", Settings()), **({"radius": radius} if radius else {}))
    jobs = []
    for target, picture, _, shown in items:
        mask = traces(target.scene, target.thing.objects) if shadow else shown
        jobs.append(Job(target, target.thing, PIL.Image.fromarray(picture), dilated(mask, kernel)))
    start = time.perf_counter()
    made = inpaint(jobs)
    spent = (time.perf_counter() - start) / len(jobs)
    found = summarize_removals(
        [measure_removal(np.asarray(m), p, truth, j.mask, shown) for m, j, (_, p, truth, shown) in zip(made, jobs, items, strict=True)]
    )
    share = np.mean([j.mask.mean() for j in jobs])
    said = detector.yes([j.target for j in jobs], made) if detector else ""
    line(name, radius, kernel, shadow, share, found, f"{spent * 1e3:8.2f}", said)


def line(name, radius, kernel, shadow, share, found, spent="", asked=""):
    psnr = [f"{'exact' if found[k] is None else format(found[k], '.1f'):>7}" for k in ("psnr_inside", "psnr_outside")]
    parts = [
        f"{name:14}{radius or '':>6}{kernel:>7}{'yes' if shadow else '':>8}{share:7.1%}",
        f"{psnr[0]}{found['ssim_inside']:7.3f}{psnr[1]}{found['ssim_outside']:7.3f}",
        f"{found['left']:7.3f}{found['detected']:7.1%}{asked:>8}{spent}",
    ]
    print(" ".join(parts), flush=True)


def speed(level):
    """Pairs per second of the whole recipe, one thread."""
    with tempfile.TemporaryDirectory() as root, contextlib.chdir(root):
        scenes = scenes_folder(Path(), level=level, test=900)
        for inpaint in ("telea", "navier_stokes", "rerender"):
            context = PairContext({"scenes": scenes}, 7, "bench", Settings(workers=1, progress=False))
            start, clock = time.perf_counter(), time.process_time()
            made = inpainted(context, dataset="scenes", saliency="scene_graph", mask="scene_graph", dilate=5, inpaint=inpaint)
            pairs = sum(isinstance(m, Sample) for m in made) // 2
            took, used = time.perf_counter() - start, time.process_time() - clock
            print(f"recipe with {inpaint:14} {pairs} pairs, {pairs / took:.0f}/s by the clock, {pairs / used:.0f}/s of processor time")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--level", default="easy", choices=("easy", "medium", "hard"))
    parser.add_argument("--model", type=Path, help="folder of a model that knows scenes, as the second detector")
    asked = parser.parse_args()
    items = list(things(asked.level, asked.scenes))
    detector = Detector(asked.model) if asked.model else None
    print(f"{len(items)} pictures of level {asked.level}")
    head = f"{'method':14}{'radius':>6}{'kernel':>7}{'shadow':>8}{'mask':>7}  PSNR in   SSIM   out    SSIM    left  found"
    print(f"{head}{'   VLM' if detector else ''}   ms/picture")
    blank = [measure_removal(p, p, truth, shown, shown) for _, p, truth, shown in items]
    said = detector.yes([t for t, *_ in items], [PIL.Image.fromarray(p) for _, p, _, _ in items]) if detector else ""
    line("original", None, 0, False, np.mean([s.mean() for *_, s in items]), summarize_removals(blank), "", said)
    report("rerender", None, 0, False, items, detector)
    for name, radii in RADII.items():
        for radius, kernel, shadow in [(3.0, k, False) for k in KERNELS] + [(r, 5, False) for r in radii if r != 3.0] + [(3.0, 3, True)]:
            report(name, radius, kernel, shadow, items, detector)
    speed(asked.level)


if __name__ == "__main__":
    main()
