"""The program that `synthesis_peers` runs inside the peers' own environment: a synthetic table. Never imports us.

Called as `python synthesis_peer_program.py PEER CODES.npy SIZES EPSILON DELTA OUT.npy`: reads rows of category codes,
writes the synthetic rows as codes, prints the seconds as JSON. PEER is "mwem" or "aim" of smartnoise-synth: AIM with
its defaults, MWEM with 12 rounds instead of its own, more, each of which takes longer than the one before.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import warnings

import numpy as np

MWEM_ROUNDS = 12


def main() -> None:
    """Run one peer once."""
    warnings.simplefilter("ignore")
    peer, path, sizes, epsilon, delta, out = sys.argv[1:7]
    import pandas as pd
    from snsynth import Synthesizer  # type: ignore[import-not-found]
    from snsynth.transform import LabelTransformer, TableTransformer  # type: ignore[import-not-found]

    rows = np.load(path)
    counts = [int(size) for size in sizes.split(",")]
    names = [f"c{place}" for place in range(len(counts))]
    frame = pd.DataFrame(rows, columns=names)
    # Every label once, so that the transformer learns the public lists and not the private ones.
    labels = [LabelTransformer(nullable=False) for _ in names]
    for label, count in zip(labels, counts, strict=True):
        label.fit(list(range(count)))
    settings: dict[str, object] = {"epsilon": float(epsilon)}
    settings |= {"delta": float(delta)} if peer == "aim" else {"iterations": MWEM_ROUNDS}
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        synthesizer = Synthesizer.create(peer, **settings)
        synthesizer.fit(frame, transformer=TableTransformer(labels))
        made = synthesizer.sample(len(frame))
    seconds = time.perf_counter() - start
    np.save(out, np.asarray(made).astype(np.int64))
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
