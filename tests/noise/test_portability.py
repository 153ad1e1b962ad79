"""The same bits everywhere: without the CPU's vector extensions too. And randomness enters at one place only."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sidelight.noise

PROGRAM = """
import hashlib
from fractions import Fraction
import numpy as np
from reference_samplers import discrete_gaussian
from sidelight.noise import *
from sidelight.testing import SeededEntropy
source = Source(SeededEntropy(7))
parts = [
    rounded_gaussian(20000, Fraction(10, 7), source), rounded_gaussian(20000, Fraction(2**47), source),
    discrete_laplace(20000, Fraction(3), source), discrete_gaussian(5000, Fraction(9), source),
    integers_below(1000, 5000, source), standard_normal(20000, source).view(np.int64),
    standard_exponential(20000, source).view(np.int64), uniform(20000, source).view(np.int64),
    gamma(5, 500, source).view(np.int64), directions(500, 4, source).ravel().view(np.int64),
    np.array([Categorical(np.arange(50), Fraction(1, 9)).draw(source) for _ in range(50)], np.int64),
]
print(hashlib.sha256(b"".join(p.astype("<i8").tobytes() for p in parts)).hexdigest()[:16])
"""

#: Of the program above, with NumPy 1.26.4 and 2.4.6 on ARM; IEEE arithmetic leaves no room for another on x86-64.
DIGEST = "406f4643f89afde8"


def run(extra: dict[str, str]) -> str:
    paths = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, **extra}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def dispatched_features() -> str:
    try:
        from numpy._core import _multiarray_umath as machine
    except ImportError:
        from numpy.core import _multiarray_umath as machine  # type: ignore[no-redef]
    return " ".join(f for f in machine.__cpu_dispatch__ if machine.__cpu_features__.get(f))


def test_reference_digest() -> None:
    assert run({}) == DIGEST


def test_without_vector_extensions() -> None:
    features = dispatched_features()
    if not features:
        pytest.skip("this NumPy build dispatches to no extension of this CPU")
    assert run({"NPY_DISABLE_CPU_FEATURES": features}) == DIGEST


def test_bytes_are_read_in_one_place() -> None:
    """No generator is imported in noise/, and os.urandom is called once, in source.py."""
    places = []
    for path in Path(sidelight.noise.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                names = []
            assert not {"random", "secrets", "scipy", "mpmath"} & {name.split(".")[0] for name in names}
            if isinstance(node, ast.Attribute):
                assert node.attr != "random"
                places += [path.name] * (node.attr == "urandom")
                # no libm decides: these differ between platforms
                assert not (isinstance(node.value, ast.Name) and node.value.id == "np" and node.attr in LIBM)
    assert places == ["source.py"]


LIBM = {"exp", "log", "expm1", "log1p", "log2", "cos", "sin", "power", "float_power"}


def test_words_are_little_endian_on_every_machine() -> None:
    from sidelight.noise import Source
    from sidelight.testing import SeededEntropy

    stream = SeededEntropy(3).read(16)
    words = Source(SeededEntropy(3)).words(2)
    assert words.tolist() == [int.from_bytes(stream[i : i + 8], "little") for i in (0, 8)]
    assert words.dtype.isnative
    assert words.dtype == np.uint64
