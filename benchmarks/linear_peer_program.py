"""The program that `linear_peers` runs inside the peers' own environment: diffprivlib's logistic regression.

Called as `python linear_peer_program.py FOLDER`, with one .npz a split in the folder. Prints one JSON object: for each
"epsilon/settings" the test accuracies, split by split. Never imports us.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np

EPSILONS = (0.1, 1.0, 8.0)
#: Their default first; then what its users turn: the strength of the penalty and the intercept.
SETTINGS = {
    "default": {},
    "no intercept": {"fit_intercept": False},
    "C=0.01": {"C": 0.01},
    "C=0.01, no intercept": {"C": 0.01, "fit_intercept": False},
}


def main(folder: str) -> None:
    """Fit every setting on every split."""
    from diffprivlib.models import LogisticRegression

    warnings.simplefilter("ignore")  # of convergence, and of sklearn's deprecations
    found: dict[str, list[float]] = {}
    for path in sorted(Path(folder).glob("*.npz")):
        with np.load(path) as split:
            x, y, x_test, y_test = (split[name] for name in ("x", "y", "x_test", "y_test"))
        for epsilon in EPSILONS:
            for name, settings in SETTINGS.items():
                model = LogisticRegression(epsilon=epsilon, data_norm=1.0, **settings).fit(x, y)
                found.setdefault(f"{epsilon:g}/{name}", []).append(float(model.score(x_test, y_test)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
