"""Where keys stand in a TOML text."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sidelight.plans.toml_text import key_lines

TEXT = '''\
title = """several
[source]
lines"""          # none of these is a header
# [budget]

[source]
path = "a#b.csv"  # a comment [ with a bracket

[[query]]
levels = [
  0.25,           # comment = 1
  0.5,
]
prediction = {family = "cauchy", location = 1, scale = 2}

[[query]]
"epsilon" = 1
[query.prediction]
family = 'lap[lace'
scale = 3
'''


def test_every_key_has_its_line() -> None:
    assert dict(key_lines(TEXT)) == {
        ("title",): 1,
        ("source",): 6,
        ("source", "path"): 7,
        ("query", 0): 9,
        ("query", 0, "levels"): 10,
        ("query", 0, "prediction"): 14,
        ("query", 1): 16,
        ("query", 1, "epsilon"): 17,
        ("query", 1, "prediction"): 18,
        ("query", 1, "prediction", "family"): 19,
        ("query", 1, "prediction", "scale"): 20,
    }
    assert tomllib.loads(TEXT)["query"][1]["prediction"]["scale"] == 3


names = st.sampled_from(["a", "b", "c-d", "e_f"])
values = st.sampled_from(
    ['"x = [1"', "'{'", "[1, [2, 3]]", "{ k = 1 }", "1_000.5", '"""\n[not]\nk = 1\n"""', "[\n1, # ]\n2]"]
)
tables = st.lists(st.tuples(st.booleans(), names, st.dictionaries(names, values, max_size=3)), max_size=5)


@given(tables)
def test_every_key_that_tomllib_reads_is_found_on_its_line(drawn: list[tuple[bool, str, dict[str, str]]]) -> None:
    kinds: dict[str, bool] = {}
    lines: list[str] = []
    wanted: dict[tuple[Any, ...], int] = {}
    counts: dict[str, int] = {}
    for repeated, name, content in drawn:
        if name in kinds and not (kinds[name] and repeated):
            continue  # TOML allows a table once, and a repeated one always as such
        kinds[name] = repeated
        path = (name, counts.setdefault(name, 0)) if repeated else (name,)
        counts[name] = counts.get(name, 0) + 1
        lines.append(f"[[{name}]]" if repeated else f"[{name}]")
        wanted[path] = sum(line.count("\n") + 1 for line in lines)
        for key, value in content.items():
            wanted[(*path, key)] = sum(line.count("\n") + 1 for line in lines) + 1
            lines.append(f"{key} = {value}")
    text = "\n".join(lines)
    tomllib.loads(text)
    assert dict(key_lines(text)) == wanted
