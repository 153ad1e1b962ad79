"""How large is the privacy page of a model with 100 features, and how long does it take to answer a person?

The time runs from the input event to the painted frame, in Chromium, for one changed field after another; the frame
itself (up to 17 ms at 60 Hz) is part of it, as it is for a person. `python -m benchmarks.privacy_page_speed` prints it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import AbsentError, print_figures, sized
from sidelight.privacy_page.page import privacy_page

FEATURES = 100
INPUTS = sized(200, 2)
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

#: Fills the form, then changes one field at a time; gives [event to painted frame, script and layout alone] in ms.
_SCRIPT = """async (inputs) => {
  const fields = [...document.querySelectorAll("#form input[type=text], #form select")];
  const put = (field, turn) => {
    if (field.tagName === "SELECT") field.selectedIndex = 1 + (turn % (field.options.length - 2 || 1));
    else field.value = String((turn * 7919 % 1000) / 10);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  };
  fields.forEach((field, place) => put(field, place));
  const found = [];
  for (let turn = 0; turn < inputs; turn++) {
    const before = document.querySelector("#exact-bound").textContent;
    const start = performance.now();
    put(fields[turn % fields.length], turn + 1);
    document.body.getBoundingClientRect();
    const worked = performance.now() - start;
    await new Promise((painted) => requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = painted;
      channel.port2.postMessage(0);
    }));
    const changed = document.querySelector("#exact-bound").textContent !== before;
    found.push([performance.now() - start, worked, changed ? 1 : 0]);
  }
  return found;
}"""


def wide_report(features: int = FEATURES) -> dict[str, Any]:
    """Make a report with many features: four numbers in five, the rest with three levels."""
    generator = np.random.default_rng(3)
    declared: list[dict[str, Any]] = []
    for place in range(features):
        if place % 5 == 4:
            levels = [f"level {letter} of feature {place}" for letter in "abc"]
            declared.append({"name": f"categorical feature number {place}", "levels": levels})
        else:
            declared.append({"name": f"numeric feature number {place}", "lo": 0, "hi": 100, "to": [-0.1, 0.1]})
    columns = sum(len(each.get("levels", [0])) for each in declared) + 1
    return {
        "schema": "privacy-report/1",
        "mechanism": "objective-perturbation",
        "neighbours": "add-or-remove-one-row",
        "guarantee": {"epsilon": 1.0, "delta": 1e-5},
        "loss": {"name": "logistic", "weights": {"-1": 1.0, "1": 1.0}},
        "encoding": {
            "features": declared,
            "row_policy": "clip",
            "data_norm": 1.0,
            "intercept_value": 1.0,
            "label": {"negative": "no", "positive": "yes"},
        },
        "theta": generator.normal(size=columns).tolist(),
        "lambda": 1.98843840,
        "sigma": 5.27728290,
        "mu_out": 0.00535963,
        "slack": 0.00135519,
        "rho": 1e-6,
        "q": 5.1035540029,
        "scope": "one-person",
        "maximum": 1.655238,
        "data_dependent": None,
    }


def measure() -> dict[str, float]:
    """Return the size in kB, and the median and the longest time of an answer in milliseconds."""
    page = privacy_page(wide_report())
    times = answer_times(page)
    return {
        "page_kilobytes": len(page.encode()) / 1000,
        "answer_milliseconds": statistics.median(total for total, _ in times),
        "longest_answer_milliseconds": max(total for total, _ in times),
        "script_milliseconds": statistics.median(worked for _, worked in times),
        "longest_script_milliseconds": max(worked for _, worked in times),
    }


def answer_times(page: str) -> list[tuple[float, float]]:
    """Return, for every input, the time to the painted frame and that of script and layout alone."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        path = Path(folder) / "page.html"
        path.write_text(page, encoding="utf-8")
        browser = play.chromium.launch(executable_path=chromium(), args=_FLAGS)
        view = browser.new_page()
        view.goto(path.as_uri())
        found = view.evaluate(_SCRIPT, INPUTS)
        browser.close()
    if sum(changed for _, _, changed in found) < INPUTS / 2:
        raise RuntimeError("the page did not answer: most inputs left the bound as it was")
    return [(total, worked) for total, worked, _ in found]


def chromium() -> str:
    """Return the path of Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("SIDELIGHT_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise AbsentError("Chromium is needed: apt-get install chromium, or set SIDELIGHT_CHROMIUM to its path")
    return found


if __name__ == "__main__":
    print_figures(measure())
