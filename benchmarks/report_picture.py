"""The picture of the gallery: the top of a report, of a file of generated visits, photographed in Chromium.

The commands are those of the README, on 20,000 generated visits of 5,000 people, with real noise: numbers differ from
run to run. Run `python -m benchmarks.report_picture` to write docs/images/report.png.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import sized, written
from benchmarks.privacy_page_speed import chromium

PICTURE = written(Path(__file__).parent.parent / "docs" / "images" / "report.png")
VISITS, PEOPLE = sized((20_000, 5_000), (500, 100))
COMMANDS = (
    "init visits.csv --person patient --max-rows 5 --number age:0:110:1 --category sex:F,M:1 "
    "--date visit:2020-01-01:2025-12-31",
    "check plan.toml",
    "run plan.toml",
)


def write_visits(path: Path) -> None:
    """Write a file of visits."""
    draw = random.Random(7)
    people = [(min(99, max(0, round(draw.gauss(48, 18)))), draw.choice("FM")) for _ in range(PEOPLE)]
    lines = ["patient,age,sex,visit"]
    for _ in range(VISITS):
        number = draw.randrange(PEOPLE)
        age, sex = people[number]
        lines.append(
            f"p{number},{age},{sex},{draw.randint(2021, 2024)}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def photograph(page: Path, path: Path) -> None:
    """Take the picture of the promise and of the first results."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        view = browser.new_page(viewport={"width": 900, "height": 1100}, color_scheme="light")
        view.goto(page.as_uri())
        view.screenshot(path=str(path))
        browser.close()
    picture = Image.open(path).convert("RGB")
    picture.quantize(96, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Run the commands in a folder of their own and photograph the report."""
    with tempfile.TemporaryDirectory() as folder:
        write_visits(Path(folder) / "visits.csv")
        source = str(Path(__file__).parent.parent / "src")
        for command in COMMANDS:
            words = [sys.executable, "-m", "sidelight", *command.split()]
            subprocess.run(words, cwd=folder, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": source})
        photograph(Path(folder) / "report.html", PICTURE)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
