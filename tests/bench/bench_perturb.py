"""How fast pictures are perturbed: `python tests/bench/bench_perturb.py [--peers FOLDER] [--rounds N]`, on one core.

The eight visual operations of VLM-UQBench at 640 x 480 with its strengths, each beside the bare calls of Pillow and OpenCV that do the
same, and beside imagecorruptions and albumentations at the nearest setting they have, where they are installed (or lie in FOLDER, made
by `pip install --no-deps --target`). All go from picture to picture: peers take arrays, and the two copies that costs (0.2 ms) are theirs.
`blur: {fast: true}` has a line of its own.
Best of N rounds. Last, memory: the peak over 100 and over 1,000 pictures in a stream.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1", NO_ALBUMENTATIONS_UPDATE="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import cv2
import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from qualm.registry.plugins.registry import load
from qualm.runners.contracts.perturbations import random_generator

cv2.setNumThreads(1)
OPERATIONS = ("blur", "dark", "bright", "cutout", "gaussian_noise", "pixelate", "salt_and_pepper", "solarize")
WIDTH, HEIGHT = 640, 480


def photo(seed=0):
    """Smooth shapes with a little grain, as photographs have."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    return Image.fromarray(np.clip(np.asarray(coarse, int) + rng.integers(-6, 7, (HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8))


def bare():
    """The calls that each operation cannot do without, from picture to picture; chance as OpenCV makes it."""

    def noise(image):
        pixels = np.asarray(image)
        made = np.empty(pixels.shape, np.int16)
        cv2.randn(made, 0, 50)
        return Image.fromarray(cv2.add(pixels, made, dtype=cv2.CV_8U))

    def salt(image):
        pixels = np.array(image)
        chance = np.empty(pixels.shape[:2], np.float32)
        cv2.randu(chance, 0, 1)
        pixels[chance < 0.1] = 0
        pixels[chance > 0.9] = 255
        return Image.fromarray(pixels)

    def cutout(image):
        made = image.copy()
        made.paste((128, 128, 128), (100, 100, 196, 196))
        return made

    def pixelate(image):
        return image.resize((WIDTH // 5, HEIGHT // 5), Image.Resampling.BOX).resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)

    return {
        "blur": lambda image: image.filter(ImageFilter.GaussianBlur(10)),
        "dark": lambda image: ImageEnhance.Brightness(image).enhance(0.2),
        "bright": lambda image: ImageEnhance.Brightness(image).enhance(4.0),
        "cutout": cutout,
        "gaussian_noise": noise,
        "pixelate": pixelate,
        "salt_and_pepper": salt,
        "solarize": lambda image: ImageOps.solarize(image, 128),
    }


def ours():
    made = {}
    for name in OPERATIONS:
        function = load("perturbations", name)
        made[name] = lambda image, function=function, name=name: function([image], [random_generator(7, name, "sample")])[0]
    made["fast_blur"] = lambda image: load("perturbations", "blur")([image], [random_generator(7, "blur", "sample")], fast=True)[0]
    return made


def imagecorruptions():
    """At the severity next to the paper's strength; it has no solarize, cutout or darkening."""
    if "pkg_resources" not in sys.modules:  # gone from setuptools; used for its frost pictures only
        sys.modules["pkg_resources"] = types.SimpleNamespace(resource_filename=lambda *_: "")
    try:
        import imagecorruptions as peer
        from imagecorruptions import corruptions
    except ImportError as error:
        print(f"imagecorruptions: {error}", file=sys.stderr)
        return {}
    blurred = corruptions.gaussian  # it calls scikit-image by a keyword that newer versions have renamed
    corruptions.gaussian = lambda image, sigma, multichannel=True: blurred(image, sigma=sigma, channel_axis=-1)
    names = {"blur": "gaussian_blur", "bright": "brightness", "gaussian_noise": "gaussian_noise", "pixelate": "pixelate"}
    names["salt_and_pepper"] = "impulse_noise"
    return {n: lambda image, c=c: Image.fromarray(peer.corrupt(np.asarray(image), severity=4, corruption_name=c)) for n, c in names.items()}


def albumentations():
    """With the paper's strengths, as far as it goes: its brightness has no factor of 4."""
    try:
        import albumentations as peer
    except ImportError as error:
        print(f"albumentations: {error}", file=sys.stderr)
        return {}
    grey = {"num_holes_range": (1, 1), "hole_height_range": (96, 96), "hole_width_range": (96, 96), "fill": 128}
    chosen = {
        "blur": peer.GaussianBlur(sigma_limit=(10, 10), blur_limit=0, p=1),
        "dark": peer.RandomBrightnessContrast((-0.8, -0.8), (0, 0), p=1),
        "bright": peer.RandomBrightnessContrast((0.5, 0.5), (0, 0), p=1),
        "cutout": peer.CoarseDropout(**grey, p=1),
        "gaussian_noise": peer.GaussNoise(std_range=(50 / 255, 50 / 255), p=1),
        "pixelate": peer.Downscale(scale_range=(0.2, 0.2), interpolation_pair={"downscale": cv2.INTER_AREA, "upscale": 0}, p=1),
        "salt_and_pepper": peer.SaltAndPepper(amount=(0.2, 0.2), p=1),
        "solarize": peer.Solarize(threshold_range=(0.5, 0.5), p=1),
    }
    return {name: lambda image, one=one: Image.fromarray(one(image=np.asarray(image))["image"]) for name, one in chosen.items()}


def best(calls, image, rounds):
    """Milliseconds of each call, the best of all rounds; rounds of different calls take turns, so that all see the same neighbours."""
    found = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call(image)
    for _ in range(rounds):
        for key, call in calls.items():
            start = time.perf_counter()
            call(image)
            found[key] = min(found[key], time.perf_counter() - start)
    return {key: 1000 * seconds for key, seconds in found.items()}


def memory(count):
    """Peak MiB of a process of its own that perturbs so many pictures one after the other."""
    command = [sys.executable, __file__, "--stream", str(count)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def stream(count):
    functions = list(ours().values())
    total = 0
    for i in range(count):
        image = photo(i % 10)
        for function in functions:
            total += function(image).width
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", default="")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--stream", type=int, default=0)
    args = parser.parse_args()
    if args.stream:
        return stream(args.stream)
    if args.peers:
        sys.path.append(args.peers)
    warnings.simplefilter("ignore")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    columns = {"ours": ours(), "bare": bare(), "imagecorruptions": imagecorruptions(), "albumentations": albumentations()}
    calls = {(column, name): call for column, table in columns.items() for name, call in table.items()}
    took = best(calls, photo(), args.rounds)
    print(f"milliseconds a picture of {WIDTH} x {HEIGHT}, best of {args.rounds}")
    print(f"{'':18}" + "".join(f"{column:>18}" for column in columns))
    for name in OPERATIONS:
        print(f"{name:18}" + "".join(f"{took[c, name]:18.2f}" if (c, name) in took else f"{'-':>18}" for c in columns))
    for column, table in columns.items():
        both = [n for n in OPERATIONS if n in table]
        if both and column != "ours":
            mine, theirs = (sum(took[c, n] for n in both) for c in ("ours", column))
            print(f"{len(both)} together: ours {mine:.2f}, {column} {theirs:.2f}: ours / {column} = {mine / theirs:.2f}")
    peer = f", albumentations {took['albumentations', 'blur']:.2f}" if ("albumentations", "blur") in took else ""
    print(f"blur: ours {took['ours', 'blur']:.2f}, with `fast` {took['ours', 'fast_blur']:.2f}{peer}")
    few, many = memory(100), memory(1000)
    print(f"peak MiB over 100 pictures {few:.0f}, over 1,000 {many:.0f}")
    assert sum(took["ours", n] for n in OPERATIONS) < 1.5 * sum(took["bare", n] for n in OPERATIONS)
    return None


if __name__ == "__main__":
    main()
