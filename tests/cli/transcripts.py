"""Follow the shell transcripts of a documentation page: run its commands and compare what they print."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def masked(line: str) -> str:
    """Numbers are noisy, and tables are padded."""
    return " ".join(re.sub(r"-?\d[\d,.]*", "#", line).split())


def make_files(page: Path) -> None:
    """Run the first Python block of a page, which writes its files."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(blocks(page, "python")[0]):
        exec(compile(example.source, "page", "exec"), names)


def follow(page: Path, sidelight: Callable[..., Any]) -> int:
    """Run the commands of a page in the current folder; every line that it shows must be printed. Return how many."""
    commands = 0
    for session in blocks(page, "console"):
        for part in session.removeprefix("$ ").split("\n$ "):
            command, *expected = part.strip().splitlines()
            words = shlex.split(command)
            assert words[0] == "sidelight"
            result = sidelight(*words[1:])
            assert result.status == 0, (command, result.err)
            printed = [masked(line) for line in result.out.splitlines()]
            for line in expected:
                assert masked(line) in printed, (command, line, result.out)
            commands += 1
    return commands
