"""`python -m sidelight.cli.demo_server`: a server on generated people with two analysts, and example requests."""

from __future__ import annotations

import base64
import sys
import time
from pathlib import Path

from sidelight.accuracy.forecast import generated
from sidelight.cli.terminal import tell
from sidelight.noise import OSEntropy
from sidelight.records import Category, Number, Schema
from sidelight.registry import import_with_extras
from sidelight.server.config_file import read_config
from sidelight.server.identity import IdentityStore
from sidelight.server.running import serve_analysts

_FILE = """title = "Generated people"
[listen]
port = 8472
[ledger]
url = "budget.db"
key_file = "ledger.key"
head_file = "head/ledger.head"
[identity]
store = "identity.db"
audit = "audit.jsonl"
[[table]]
name = "people"
source = {path = "people.parquet"}
capacity = 100_000
currency = "epsilon"
budget = {epsilon = 3}
kinds = ["count", "mean", "sum", "proportion", "histogram", "quantiles", "summary", "sql"]
largest = {epsilon = 0.5}
smallest = {epsilon = 0.001}
durations = {default = "4 s"}
column = [
  {name = "age", lower = 0, upper = 120, granularity = 1},
  {name = "job", kind = "category", categories = ["cook", "nurse", "clerk"]},
]
analyst = [{name = "ada", budget = {epsilon = 1}}, {name = "bob", budget = {epsilon = 1}}]
"""
_QUERY = '{"query": {"kind": "count", "by": ["job"], "epsilon": "0.1"}}'


def write_demo(folder: Path) -> dict[str, str]:
    """Write a file of generated people, a key and a configuration into a folder; return a token for each analyst."""
    import narwhals.stable.v2 as nw

    import_with_extras("pyarrow", what="the demonstration")
    (folder / "head").mkdir(parents=True, exist_ok=True)
    schema = Schema([Number("age", lower=0, upper=120, granularity=1), Category("job", ["cook", "nurse", "clerk"])])
    columns = generated(schema, 20_000)
    columns["age"] = columns["age"].round()
    nw.from_dict(columns, backend="pyarrow").write_parquet(str(folder / "people.parquet"))
    for name, text in {
        "ledger.key": base64.b64encode(OSEntropy().read(32)).decode(),
        "survey.toml": _FILE,
    }.items():
        if not (folder / name).exists():
            (folder / name).write_text(text, encoding="utf-8")
    store = IdentityStore(read_config(folder / "survey.toml").store)
    try:
        return {name: store.issue(name, now=time.time(), days=1) for name in ("ada", "bob")}
    finally:
        store.close()


def main() -> None:
    """Serve generated people until interrupted."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-server")
    tokens = write_demo(folder)

    def ready(url: str) -> None:
        for name, token in tokens.items():
            tell(f"{name}: {token}")
        tell(f"The page is at {url}; sign in with a token. From Python:")
        tell("  import sidelight as sl")
        tell(f'  remote = sl.connect("{url}", token="{tokens["ada"]}")')
        tell('  print(remote.price(sl.Mean("age", by="job", epsilon="0.1")))')
        tell('  print(remote.release(sl.Mean("age", by="job", epsilon="0.1")))')
        tell("From a shell; a key is charged once:")
        tell(
            f"  curl -s -H 'Authorization: Bearer {tokens['ada']}' -H 'Content-Type: application/json' "
            f"-H 'Idempotency-Key: first' -H 'Prefer: wait=30' -d '{_QUERY}' {url}/v1/tables/people/releases"
        )

    serve_analysts(read_config(folder / "survey.toml"), when_ready=ready)


if __name__ == "__main__":
    main()
