"""Clients of a test, each in a process of its own: forked from one that has imported everything, to save time.

`python service_client_process.py URL FOLDER ROUNDS '{"a": TOKEN, ...}'`. The last client dies once, after its first
report is stored and before it is sent; it is started again with the same ledger. Receipts go to FOLDER/NAME.txt.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import httpx  # noqa: F401 - what a client loads on its way
import numpy as np

import sidelight as sl
from sidelight.experts import Client  # noqa: F401
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy


def run_client(url: str, token: str, name: str, folder: Path, *, rounds: int, crash: bool) -> None:
    terms = sl.experts.Reporting(actions=3, mu=1, sensitivity="0.3", neighbours="presence", rounds=40)
    with open_ledger(f"sqlite:///{folder}/{name}.db", testing=True) as ledger:
        reporter = sl.experts.Reporter(name, terms, ledger=ledger, entropy=SeededEntropy("process", path=[name]))
        if crash:
            reporter.report(1, gains_of(name, 1))
            os._exit(9)
        with sl.experts.Client(url, token, reporter=reporter) as client, (folder / f"{name}.txt").open("w") as out:
            for open_ in client.rounds(poll_seconds=0.05):
                if open_.round > rounds:
                    break
                receipt = client.report(open_.round, gains_of(name, open_.round))
                print(open_.round, receipt.value, file=out, flush=True)


def gains_of(name: str, round_: int) -> list[float]:
    return list(np.random.default_rng([ord(name), round_]).random(3))


def started(*arguments: object, **more: object) -> int:
    child = os.fork()
    if child == 0:
        try:
            run_client(*arguments, **more)  # type: ignore[arg-type]
            os._exit(0)
        finally:
            os._exit(1)
    return child


def main() -> None:
    url, folder, rounds, tokens = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    open_ledger("sqlite://", testing=True).close()  # loads its libraries once for all
    *names, last = tokens
    dying = started(url, tokens[last], last, folder, rounds=rounds, crash=True)
    children = [started(url, tokens[name], name, folder, rounds=rounds, crash=False) for name in names]
    assert os.waitstatus_to_exitcode(os.waitpid(dying, 0)[1]) == 9
    children.append(started(url, tokens[last], last, folder, rounds=rounds, crash=False))
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * len(tokens)


if __name__ == "__main__":
    main()
