"""The picture of the how-to: the answer of a privacy page for one generated person, photographed in Chromium.

A logistic regression is fitted with real noise on generated people, its privacy report becomes a page, and a person of
39 is typed in. Run `python -m benchmarks.privacy_page_picture` to write docs/images/privacy-page.png; numbers
differ a little from run to run, because every fit draws new noise.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized, written
from benchmarks.privacy_page_speed import chromium
from sidelight.privacy_page.page import privacy_page

PICTURE = written(Path(__file__).parent.parent / "docs" / "images" / "privacy-page.png")
PEOPLE = sized(20_000, 500)
FEATURES: list[dict[str, Any]] = [
    {"name": "age", "lo": 18, "hi": 98, "to": [-0.5, 0.5]},
    {"name": "hours of work a week", "lo": 0, "hi": 80, "to": [-0.5, 0.5]},
    {"name": "years of school", "lo": 0, "hi": 20, "to": [-0.5, 0.5]},
    {"name": "lives in", "levels": ["a town", "the country"], "to": [0, 0.5]},
]


def report() -> dict[str, Any]:
    """Fit a private model of generated people and return its privacy report."""
    generator = np.random.default_rng(7)
    shares = generator.beta(4, 5, size=(PEOPLE, 3)) - 0.5
    town = generator.random(PEOPLE) < 0.7
    rows = np.column_stack([shares, 0.5 * town, 0.5 * ~town])
    chances = 1 / (1 + np.exp(-(1.5 * shares[:, 0] + 3 * shares[:, 1] + 4 * shares[:, 2] - 0.6)))
    labels = np.where(generator.random(PEOPLE) < chances, "above", "below")
    model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=["above", "below"]).fit(rows, labels)
    written: dict[str, Any] = model.privacy_report(features=FEATURES)
    return written


def photograph(page: str, path: Path) -> None:
    """Type one person in and take the picture of the answer."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        browser = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        view = browser.new_page(viewport={"width": 800, "height": 900}, color_scheme="light")
        view.goto(file.as_uri())
        for label, value in (("age", "39"), ("hours of work a week", "40"), ("years of school", "13")):
            view.get_by_label(label, exact=True).fill(value)
        view.get_by_label("lives in").select_option(label="a town")
        view.get_by_label("The outcome").select_option(label="below")
        path.parent.mkdir(exist_ok=True)
        view.locator("#result").screenshot(path=str(path))
        browser.close()
    picture = Image.open(path).convert("RGB")
    picture.quantize(96, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Write the picture."""
    photograph(privacy_page(report()), PICTURE)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
