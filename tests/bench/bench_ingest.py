"""What bringing data in costs: `python tests/bench/bench_ingest.py [QUESTIONS] [PICTURES]` (200,000 on 20,000 of 640 x 480).

Every step is a process of its own (with those that it starts), whose seconds, seconds of CPU and largest memory are printed, the CPU in
ratio to a floor of the same run:

- reading: VQA v2's training annotations in shape and number (443,757 with ten answers each), against `json.load` of them.
- adding: `qualm data add` of questions in JSON Lines and their pictures by path, and the data stage made of it, against reading every
  file once, hashing it by MD5 and writing it once, on one thread, which no copy that knows its hash can do without.
- adding again: the same when no file was touched, against asking for every file's times.

Goals: 200,000 questions added and made a dataset in 60 s and 1 GiB; adding again in 2 s per GB; shards of 50 to 200 MB.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

CARD = """\
from qualm.registry.entries.card import Card
card = Card(
    name="bench", kind="dataset", title="bench", description="bench", adapter="image_table", source="here", licence="none", citation="",
    layout=({"files": "test.jsonl"}, {"files": "images/*.jpg"}), splits={"test": {"files": "test.jsonl"}},
)
"""
ADD = (
    CARD
    + "from pathlib import Path\nfrom qualm.registry.entries.adding import add\nprint(add(Path('.'), 'bench', 'SOURCE', card).outcome)\n"
)
STAGE = """\
import qualm.runners.stages.data as data
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
args = {"files": {"test": "test.jsonl"}, "images": "images", "meta": ["question_type"], "id": "question_id"}
params = {"dataset": "bench", "card": "bench", "adapter": "image_table", "args": args, "limit": None}
about = {"title": "bench", "source": "here", "licence": "none", "citation": ""}
outputs = {"dataset": "made", "card": "made.md"}
params |= {"about": about}
stage = Stage("b/data", "b", "data", "data", params, {"source": "registry/data/bench"}, outputs, 7, Settings(progress=False))
data.run(stage)
print(stage.counters)
"""
FLOOR = """\
import hashlib, sys
from pathlib import Path
for i, file in enumerate(p for p in sorted(Path("SOURCE").rglob("*")) if p.is_file()):
    with file.open("rb") as reading, open(f"floor/{i}", "xb") as writing:
        digest = hashlib.md5()
        while chunk := reading.read(1 << 20):
            digest.update(chunk)
            writing.write(chunk)
"""
TIMES = "import os\nprint(sum(os.stat(f'{parent}/{name}').st_size for parent, _, names in os.walk('SOURCE') for name in names))\n"
READ = (
    "from pathlib import Path\nfrom qualm.registry.adapters._official import read_records\n"
    "print(sum(len(r['answers']) for _, r in read_records(Path('SOURCE'), 'annotations', 'annotations')))\n"
)
LOAD = "import json\nprint(sum(len(r['answers']) for r in json.load(open('SOURCE'))['annotations']))\n"


Cost = tuple[float, float, float]


def measured(code: str, source: Path, folder: Path) -> Cost:
    """Wall seconds, seconds of CPU, and largest MiB of a process and those that it waited for."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code.replace("SOURCE", str(source))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DVC_NO_ANALYTICS": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{code}\nended with {status}: {said.decode()}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def pictures() -> Iterator[bytes]:
    """JPEGs of 640 x 480, each with other bytes: some hundred pictures, and a comment that counts."""
    from PIL import Image, ImageFilter

    kinds = []
    for _ in range(100):
        picture = Image.effect_noise((640, 480), 60).filter(ImageFilter.GaussianBlur(2)).convert("RGB")
        made = io.BytesIO()
        picture.save(made, "JPEG", quality=90)
        kinds.append(made.getvalue())
    number = 0
    while True:
        note = f"{number:08}".encode()
        data = kinds[number % len(kinds)]
        yield data[:2] + b"\xff\xfe" + (2 + len(note)).to_bytes(2, "big") + note + data[2:]
        number += 1


def write_source(folder: Path, questions: int, images: int) -> int:
    """Questions in turn on the pictures; bytes in all."""
    (folder / "images").mkdir(parents=True)
    size = 0
    for number, data in zip(range(images), pictures(), strict=False):
        (folder / f"images/{number:08}.jpg").write_bytes(data)
        size += len(data)
    with (folder / "test.jsonl").open("w") as handle:
        for number in range(questions):
            row = {"question_id": number, "image": f"{number * images // questions:08}.jpg", "question": f"What is in place {number}?"}
            handle.write(json.dumps({**row, "answer": ["net"] * 10, "question_type": "what is"}) + "\n")
    return size + (folder / "test.jsonl").stat().st_size


def write_annotations(path: Path, n: int) -> None:
    words = [{"answer": "net", "answer_confidence": "maybe", "answer_id": i} for i in range(1, 11)]
    same = {"question_type": "what is this", "multiple_choice_answer": "net", "answers": words, "answer_type": "other"}
    with path.open("w") as handle:
        handle.write('{"info": {}, "annotations": [')
        for number in range(n):
            handle.write((", " if number else "") + json.dumps({**same, "image_id": number // 5, "question_id": number}))
        handle.write("]}")


def line(what: str, took: Cost, floor: Cost | None, gigabytes: float) -> None:
    wall, cpu, mib = took
    ratio = f"{cpu / floor[1]:8.2f}" if floor else " " * 8
    print(f"{what:50}{wall:8.2f} s{cpu:8.2f} s CPU{cpu / gigabytes:8.2f} s CPU/GB{mib:7.0f} MiB{ratio}", flush=True)


def main() -> None:
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    images = int(sys.argv[2]) if len(sys.argv) > 2 else questions // 10
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = folder / "annotations.json"
        write_annotations(path, 443_757)
        gigabytes = path.stat().st_size / 1e9
        floor = measured(LOAD, path, folder)
        line("floor: json.load of VQA v2's annotations", floor, None, gigabytes)
        line("read_records of them", measured(READ, path, folder), floor, gigabytes)

        source = folder / "source"
        gigabytes = write_source(source, questions, images) / 1e9
        print(f"{questions:,} questions on {images:,} pictures, {gigabytes:.2f} GB")
        (folder / "repo").mkdir()
        (folder / "repo/floor").mkdir()
        repo = folder / "repo"
        subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
        subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=repo, check=True)
        floor = measured(FLOOR, source, repo)
        line("floor: read, hash and write every file once", floor, None, gigabytes)
        added = measured(ADD, source, repo)
        line("qualm data add", added, floor, gigabytes)
        made = measured(STAGE, source, repo)
        line("the data stage", made, floor, gigabytes)
        line("both", (added[0] + made[0], added[1] + made[1], max(added[2], made[2])), floor, gigabytes)
        shards = sorted((repo / "made/images").glob("*.parquet"))
        sizes = [s.stat().st_size / 1e6 for s in shards[:-1]] or [0.0]
        print(f"{len(shards)} shards of {min(sizes):.0f} to {max(sizes):.0f} MB, and the last one")
        times = measured(TIMES, source, repo)
        line("floor: the times of every file", times, None, gigabytes)
        line("qualm data add, again", measured(ADD, source, repo), times, gigabytes)
        line("qualm data add, a third time", measured(ADD, source, repo), times, gigabytes)


if __name__ == "__main__":
    main()
