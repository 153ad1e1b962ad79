"""The program that `synthesis_peers` runs inside a peer's own environment: a synthetic table. Never imports us.

Called as `python synthesis_peer_program.py PEER CODES.npy SIZES EPSILON RHO OUT.npy`: reads rows of category codes,
writes the synthetic rows as codes, prints the seconds as JSON. PEER is "mwem" of smartnoise-synth with pure EPSILON and
12 rounds instead of its own, more, each of which takes longer than the one before; or "aim" of OpenDP with its defaults
and all pairs as its workload, for RHO.
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


def mwem(rows: np.ndarray, sizes: list[int], epsilon: float, rho: float) -> np.ndarray:
    """Return rows of smartnoise-synth's MWEM."""
    import pandas as pd
    from snsynth import Synthesizer  # type: ignore[import-not-found]
    from snsynth.transform import LabelTransformer, TableTransformer  # type: ignore[import-not-found]

    frame = pd.DataFrame(rows, columns=[f"c{place}" for place in range(len(sizes))])
    # Every label once, so that the transformer learns the public lists and not the private ones.
    labels = [LabelTransformer(nullable=False) for _ in sizes]
    for label, size in zip(labels, sizes, strict=True):
        label.fit(list(range(size)))
    synthesizer = Synthesizer.create("mwem", epsilon=epsilon, iterations=MWEM_ROUNDS)
    synthesizer.fit(frame, transformer=TableTransformer(labels))
    return np.asarray(synthesizer.sample(len(frame))).astype(np.int64)


def aim(rows: np.ndarray, sizes: list[int], epsilon: float, rho: float) -> np.ndarray:
    """Return rows of OpenDP's AIM; those with a value outside the lists, which it may invent, are left out."""
    import opendp.prelude as dp  # type: ignore[import-not-found]
    import polars as pl

    dp.enable_features("contrib")
    names = [f"c{place}" for place in range(len(sizes))]
    context = dp.Context.compositor(
        data=pl.DataFrame(rows, schema=names).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    released = (
        context.query(rho=rho)
        .select(*names)
        .contingency_table(
            keys={name: list(range(size)) for name, size in zip(names, sizes, strict=True)},
            algorithm=dp.mbi.AIM(queries=2),
        )
        .release()
    )
    made = released.synthesize(rows=len(rows)).select(names).drop_nulls()
    return made.to_numpy().astype(np.int64)


def main() -> None:
    """Run one peer once."""
    warnings.simplefilter("ignore")
    peer, path, sizes, epsilon, rho, out = sys.argv[1:7]
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        make = {"mwem": mwem, "aim": aim}[peer]
        made = make(np.load(path), [int(size) for size in sizes.split(",")], float(epsilon), float(rho))
    np.save(out, made)
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
