"""Take the screenshots of README: `python -m tests.bench.screenshots SPEC A B` in a checkout where SPEC was run.

Writes docs/report.png, the first screen of the report, and docs/view.png, the answers of models A and B side by side in `qualm view`.
"""

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.processes.chromium import Chromium

DOCS = Path(__file__).parents[2] / "docs"
WIDTH, VIEW_HEIGHT = 1280, 660


def take(browser: Chromium, file: Path, height: int) -> None:
    """Write the top of the open page as a PNG file."""
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    file.write_bytes(base64.b64decode(browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]))


def main(spec: str, a: str, b: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        subprocess.run([sys.executable, "-m", "qualm", "view", spec, "--publish", str(site)], check=True)
        with Chromium(Path(folder) / "profile", WIDTH, VIEW_HEIGHT) as browser:
            browser.size(WIDTH, VIEW_HEIGHT)
            browser.open(Path("results", spec, "report.html").resolve().as_uri())
            top = "(document.getElementById('findings') ?? document.getElementById('leaderboard')).getBoundingClientRect().top"
            take(browser, DOCS / "report.png", int(browser.run(top)) - 10)
            browser.open(f"{(site / 'index.html').as_uri()}#/answers/{spec}?variant=clean&model={a}&beside={b}")
            browser.until("document.querySelector('img')?.complete")
            take(browser, DOCS / "view.png", VIEW_HEIGHT)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
