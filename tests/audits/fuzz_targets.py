"""What is fuzzed: plan files, releases as JSON, ledgers as files, cells of CSV and Parquet files, the service's inputs.

    python tests/audits/fuzz_targets.py SECONDS [TARGET ...]    random bytes, each target for so long
    python tests/audits/fuzz_targets.py --guided SECONDS        guided by coverage, where atheris is installed

A target turns bytes into an input that is nearly right, gives it to the library as a user would, and raises `Defect`
where something other than an answer or an error of sidelight's own comes back, or where a private mark leaves.
"""

from __future__ import annotations

import atexit
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_tools import NAME, NUMBER, Choices, Defect, allowed, watched

import sidelight as sl

SCHEMA = [
    sl.Number("age", lower=0, upper=120, granularity=1),
    sl.Category("job", ["nurse", "cook"], other="cook"),
    sl.PersonId("id", max_rows=2),
]


# --- plan files ------------------------------------------------------------------------------------------------------

PLAN = """[source]
path = "given/people.csv"
name = "people"
records = "lines"
[[column]]
name = "age"
lower = 0
upper = 120
granularity = 1
[[column]]
name = "job"
kind = "category"
categories = ["nurse", "cook"]
other = "cook"
[[column]]
name = "id"
kind = "person"
max_rows = 2
[budget]
epsilon = 3
[ledger]
url = "budget.db"
[[query]]
kind = "quantiles"
column = "age"
levels = [0.25, 0.5, 0.75]
epsilon = 1
[[query]]
kind = "count"
by = "job"
epsilon = 0.5
"""
# fmt: off
_VALUES = (
    "0", "-1", "1", "nan", "inf", "-inf", "1e400", "1e-320", "10000000000000000000000", '""', '"age"', '"job"',
    '"id"', '"../x"', '"\\u0000"', "[]", "[0.5]", "[[1]]", '["age", 1]', "{}", "{ a = 1 }", "true", "2020-01-01",
    "12:00:00", '"auto"', '"given/*.csv"', '"given"', "[1, 2, nan]", '["a", "a"]', '"' + "x" * 300 + '"', "",
)
_KEYS = (
    "by", "where", "prediction", "delta", "rho", "mu", "noise", "title", "known", "clip", "k", "bins", "form", "day",
)
# fmt: on


def plan_file(data: bytes) -> None:
    """Give a broken plan to `sidelight plan` and `sidelight run`."""
    from sidelight.registry import PLAN_KINDS

    choose, lines = Choices(data), PLAN.splitlines()
    for _ in range(1 + choose.below(4)):
        at, move = choose.below(len(lines)), choose.below(6)
        key = lines[at].partition(" =")[0]
        if move == 0:
            lines[at] = f"{key} = {choose.pick(_VALUES)}"
        elif move == 1:
            del lines[at]
        elif move == 2:
            lines.insert(choose.below(len(lines)), lines[at])
        elif move == 3:
            lines.insert(at, f"{choose.pick(_KEYS)} = {choose.pick(_VALUES)}")
        elif move == 4:
            lines[at] += choose.raw().decode("latin-1")
        else:
            lines += ["[[query]]", f'kind = "{choose.pick(PLAN_KINDS)}"', 'column = "age"', "epsilon = 0.5"]
    with watched() as say:
        _given()
        Path("plan.toml").write_text("\n".join(lines), encoding="utf-8")
        for command in (("plan", "plan.toml"), ("run", "plan.toml", "--json", "releases.json")):
            _command(say, *command)


def _given() -> None:
    Path("given").mkdir()
    rows = [f"{20 + number % 50},{'nurse' if number % 3 else 'cook'},p{number // 2}" for number in range(40)]
    rows[7] = f"{NUMBER},{NAME},{NAME}"
    Path("given/people.csv").write_text("\n".join(["age,job,id", *rows]) + "\n", encoding="utf-8")


def _command(say: Callable[[object], None], *arguments: str) -> None:
    from typer.testing import CliRunner

    from sidelight.cli.app import app

    result = CliRunner().invoke(app, list(arguments))
    say(result.output)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise Defect("".join(traceback.format_exception(result.exception)[-3:]))
    if result.exit_code not in (0, 1, 2):
        raise Defect(f"{arguments[0]} ended with {result.exit_code}: {result.output[-500:]}")


# --- releases as JSON ------------------------------------------------------------------------------------------------


@cache
def _releases() -> tuple[str, ...]:
    from sidelight.testing import seeded_release

    table = sl.Table({"age": np.arange(40.0), "job": np.array(["nurse", "cook"] * 20, dtype=object)}, schema=SCHEMA[:2])
    queries = (
        sl.Quantiles([0.5], column="age", epsilon=1),
        sl.Count(by="job", epsilon=1),
        sl.Distribution("age", epsilon=1),
        sl.StableMedian("age", epsilon=1, delta="1e-6"),
    )
    return tuple(seeded_release(query, table, seed=1).to_json() for query in queries)


# fmt: off
_JSON_VALUES = (
    None, True, -1, 1e308, 10**400, "", "x", [], {}, [[]], {"a": 1}, "nan", 0.1, "released", "1/0", "1e999999",
)
# fmt: on


def release_json(data: bytes) -> None:
    """Read a release back whose JSON was changed."""
    choose = Choices(data)
    text = choose.pick(_releases())
    if choose.below(4) == 0:
        at = choose.below(len(text))
        text = text[:at] + choose.raw().decode("latin-1") + text[at + choose.below(9) :]
    else:
        thing = json.loads(text)
        for _ in range(1 + choose.below(3)):
            _change(thing, choose)
        text = json.dumps(thing)
    with watched() as say:
        outcome = allowed(lambda: sl.outcome_from_json(text), say)
        if outcome is not None:
            for show in (
                repr,
                str,
                lambda each: each.to_json(),
                lambda each: getattr(each, "_repr_html_", each.to_json)(),
            ):
                allowed(lambda show=show: say(show(outcome)), say)  # type: ignore[misc]
        Path("releases.json").write_text(f"[{text}]", encoding="utf-8", errors="surrogatepass")
        _command(say, "report", "releases.json", "-o", "page.html")


def _change(thing: Any, choose: Choices) -> None:
    """Change one place of a tree of lists and dictionaries."""
    while True:
        keys: Any = list(thing) if isinstance(thing, dict) else range(len(thing))
        if not keys:
            return
        key = choose.pick(keys)
        if isinstance(thing[key], dict | list) and thing[key] and choose.below(4):
            thing = thing[key]
            continue
        if choose.below(3) == 0:
            del thing[key]
        else:
            thing[key] = choose.pick(_JSON_VALUES)
        return


# --- ledgers as files ------------------------------------------------------------------------------------------------


@cache
def _ledger() -> bytes:
    from sidelight.ledger import Reservation

    with tempfile.TemporaryDirectory() as place:
        with sl.open_ledger(Path(place) / "budget.db") as ledger:
            scope = ledger.open_scope("people", budget=sl.PureDP(1))
            for key in ("a", "b"):
                reservation = scope.reserve(sl.Claims.of(sl.PureDP("0.5")), request={"kind": "count"}, key=key)
                assert isinstance(reservation, Reservation)
                reservation.release("text")
        return (Path(place) / "budget.db").read_bytes()


def ledger_file(data: bytes) -> None:
    """Open a ledger whose file was changed, and try to spend from it: its budget is used up."""
    choose, content = Choices(data), bytearray(_ledger())
    for _ in range(1 + choose.below(5)):
        at = choose.below(len(content)) if choose.below(3) else choose.below(200)
        move = choose.below(4)
        if move == 0:
            content[at : at + 1] = bytes([choose.below(256)])
        elif move == 1:
            new = choose.raw()
            content[at : at + len(new)] = new
        elif move == 2:
            del content[at : at + 1 + choose.below(5000)]
        else:
            content[at:at] = choose.raw()
        content = content or bytearray(b"\0")
    with watched() as say:
        Path("budget.db").write_bytes(content)

        def spend() -> None:
            with sl.open_ledger("budget.db", create=False) as ledger:
                say(ledger.entries())
                intact = ledger.verify()
                say(intact)
                ledger.scope("people").reserve(sl.Claims.of(sl.PureDP("0.5")), request={"kind": "count"}, key="c")
                raise Defect("a changed ledger granted what was spent")

        try:
            allowed(spend, say)
        except Defect as defect:
            if isinstance(defect.__cause__, Defect):
                raise defect.__cause__ from None
            raise
        for command in ("show", "verify"):
            _command(say, "ledger", command, "budget.db")


# --- cells of files --------------------------------------------------------------------------------------------------

# fmt: off
_CELLS = (
    f"{NUMBER}", NAME, "", '"', '""', '"a\nb"', "\r", "\n", ",", "nan", "NaN", "inf", "-inf", "1e400", "1e-400",
    "0x10", "1_000", " 31 ", "31.", ".5", "+5", "٣١", "１２", "\x00", "\ufeff31", "31;32", "1,5", "TRUE", "2020-01-01",
    "p1", "nurse", "Nurse", "9" * 400, "\ud800", "'", "\\N", "#", "31\t", "NULL",
)
# fmt: on
_QUERIES = (
    sl.Quantiles([0.5], column="age", epsilon=1),
    sl.Count(by="job", epsilon=1),
    sl.Mean("age", by="job", epsilon=1),
    sl.Histogram("age", bins=[30, 60], epsilon=1),
    sl.CountDistinct("job", epsilon=1),
)


def csv_cells(data: bytes) -> None:
    """Release from a CSV file with odd cells."""
    choose = Choices(data)
    rows = [["age", "job", "id"], [str(NUMBER), NAME, NAME], ["31", "nurse", "p1"], ["47", "cook", "p2"]]
    for _ in range(1 + choose.below(6)):
        at, cell = choose.below(len(rows)), choose.pick(_CELLS)
        if at == 0 and cell in (str(NUMBER), NAME):  # names of columns are public; a file without them: see below
            continue
        rows[at][choose.below(3)] = cell + choose.raw().decode("latin-1") if choose.below(3) == 0 else cell
    if choose.below(10) == 0:
        del rows[0]
    lines = (choose.pick((",", ",", ",", ";")).join(row) for row in rows)
    content = choose.pick(("\n", "\n", "\r\n", "\r")).join(lines).encode("utf-8", "surrogatepass")
    with watched() as say:
        Path("given").mkdir()
        Path("given/people.csv").write_bytes(content + choose.raw())
        _release(Path("given/people.csv"), choose, say)


def parquet_cells(data: bytes) -> None:
    """Release from a Parquet file with columns of odd types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    choose = Choices(data)
    # fmt: off
    types = (
        pa.float64(), pa.float32(), pa.float16(), pa.int64(), pa.uint8(), pa.string(), pa.large_string(), pa.bool_(),
        pa.binary(), pa.decimal128(20, 2), pa.date32(), pa.timestamp("us"), pa.list_(pa.int64()), pa.null(),
        pa.dictionary(pa.int32(), pa.string()), pa.struct([("a", pa.int64())]),
    )
    values: tuple[Any, ...] = (
        NUMBER, NAME, None, 31, 47.5, True, b"\xff", float("nan"), float("inf"), [1], {"a": 1}, "nurse",
    )
    # fmt: on
    columns = {}
    for name in ("age", "job", "id"):
        kind, cells = choose.pick(types), [choose.pick(values) for _ in range(6)]
        columns[name] = pa.array([_as(cell, kind) for cell in cells], kind)
    if choose.below(6) == 0:
        columns.pop(choose.pick(list(columns)))
    with watched() as say:
        Path("given").mkdir()
        pq.write_table(pa.table(columns), "given/people.parquet")
        _release(Path("given/people.parquet"), choose, say)


def _as(cell: Any, kind: Any) -> Any:
    """Return the cell where a column of this kind can hold it."""
    import pyarrow as pa

    try:
        return pa.array([cell], kind)[0].as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _release(path: Path, choose: Choices, say: Callable[[object], None]) -> None:
    query, schema = choose.pick(_QUERIES), SCHEMA if choose.below(2) else SCHEMA[:2]
    table = allowed(lambda: sl.Table(path, schema=schema, name="people"), say)
    if table is None:
        return
    say(repr(table))
    release = allowed(lambda: query.release(table), say)
    if release is not None:
        for shown in (repr(release), str(release), release.to_json(), release._repr_html_()):
            say(shown)


# --- the service -----------------------------------------------------------------------------------------------------

# fmt: off
_PATHS = (
    "/v1/reports", "/v1/reports", "/v1/reports", "/v1/round", "/v1/rounds", "/v1/terms", "/", "/health",
    "/openapi.json",
)
_HEADERS = (
    "Content-Type", "Accept", "If-None-Match", "Range", "Content-Length", "Transfer-Encoding", "X-Forwarded-For",
)
# fmt: on


_OPEN = ExitStack()
atexit.register(_OPEN.close)


def end_service() -> None:
    """End the service, which else lives as long as the process: it limits the log lines of all services in it."""
    _OPEN.close()
    _service.cache_clear()


@cache
def _service() -> tuple[Any, str]:
    """Return a running service in this process, and a report for its first round; it ends with `_OPEN`."""
    sys.path.append(str(Path(__file__).parents[1] / "experts"))
    from service_fixtures import NAMES, made_reports, write_plan
    from starlette.testclient import TestClient

    from sidelight.experts.service.app import service_app
    from sidelight.experts.service.store import Tokens

    place = _OPEN.enter_context(tempfile.TemporaryDirectory(prefix="sidelight-fuzz-service-"))
    plan = write_plan(Path(place))
    token = Tokens(plan.tokens).issue(*NAMES)[0]
    client = _OPEN.enter_context(TestClient(service_app(plan)))
    client.headers["Authorization"] = f"Bearer {token}"
    return client, made_reports(plan.reporting, 1)[1, "a"].to_json()


def service_input(data: bytes) -> None:
    """Send something odd to the service: every answer is an answer, and no value of a report is in it."""
    choose, (client, text) = Choices(data), _service()
    report = json.loads(text)
    for _ in range(choose.below(3)):
        _change(report, choose)
    places = [key for key, value in report.items() if isinstance(value, list) and value]
    if places and choose.below(2):
        report[choose.pick(places)][0] = choose.pick((NUMBER, str(NUMBER), NAME))
    body = json.dumps(report).encode()
    if choose.below(3) == 0:
        at = choose.below(len(body))
        body = body[:at] + choose.raw() + body[at + choose.below(9) :]
    headers = {"Content-Type": "application/json"}
    for _ in range(choose.below(3)):
        headers[choose.pick(_HEADERS)] = choose.raw().hex() or "application/json"
    path = choose.pick(_PATHS) + ("?" + choose.raw().hex() if choose.below(4) == 0 else "")
    method = choose.pick(("POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS"))
    with watched() as say:
        answer = allowed(lambda: client.request(method, path, content=body, headers=headers), say)
        if answer is not None:
            say(f"{answer.headers} {answer.text}")
            if answer.status_code >= 500:
                raise Defect(f"{method} {path} was answered {answer.status_code}: {answer.text[:200]}")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "plan": plan_file,
    "release": release_json,
    "ledger": ledger_file,
    "csv": csv_cells,
    "parquet": parquet_cells,
    "service": service_input,
}


def fuzz(name: str, seconds: float, seed: int = 0) -> tuple[int, dict[str, str]]:
    """Try random bytes for so long; return how many, and each kind of defect with the bytes that show it."""
    rng, found, tried = random.Random(f"{name}/{seed}"), dict[str, str](), 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = rng.randbytes(rng.randrange(80))
        tried += 1
        try:
            TARGETS[name](data)
        except Defect as defect:
            found.setdefault(str(defect)[-300:], data.hex())
    return tried, found


def guided(seconds: str) -> int:
    """Fuzz each target with atheris in a process of its own; return how many ended with a defect."""
    if find_spec("atheris") is None:
        print("atheris is not installed for this Python: nothing was guided by coverage", file=sys.stderr)
        return 0
    command = [sys.executable, str(Path(__file__).with_name("fuzz_with_atheris.py"))]
    return sum(subprocess.run([*command, name, f"-max_total_time={seconds}"]).returncode != 0 for name in TARGETS)


def main() -> None:
    """Fuzz with random bytes, or with atheris."""
    if sys.argv[1] == "--guided":
        sys.exit(guided(sys.argv[2]))
    results = {name: fuzz(name, float(sys.argv[1])) for name in sys.argv[2:] or TARGETS}
    for name, (tried, found) in results.items():
        print(f"{name}: {tried} inputs, {len(found)} defects", file=sys.stderr)
        for text, data in found.items():
            print(f"--- {name} {data}\n{text}", file=sys.stderr)
    tried, defects = (sum(each) for each in zip(*((a, len(b)) for a, b in results.values()), strict=True))
    print(json.dumps({"inputs": tried, "defects": defects}))


if __name__ == "__main__":
    main()
