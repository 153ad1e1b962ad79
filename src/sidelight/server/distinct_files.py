"""Checks that ledger, keys, logs, sources and public files of a server are different files.

Files are compared by device and inode, so that links and other spellings of a path are recognised, and folders and
patterns by their files. The check runs when the server starts: the owner is responsible for files that are added to a
folder later.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from sidelight.accounting import Totals
from sidelight.errors import PlanError
from sidelight.ledger import Ledger
from sidelight.ledger.notes import keep_notes, read_notes
from sidelight.ledger.place import BESIDE, parse_place
from sidelight.plans.section import Section
from sidelight.records.engines import is_postgres
from sidelight.records.source_files import files_of, identities_of, real_path, would_be_read
from sidelight.server.config import Pool, ServedTable, ServerConfig

Identities: TypeAlias = frozenset[tuple[str | int, ...]]
#: The topic of the ledger's notes about sources: each is a mark of a source and the name of its table.
_SERVED = "served"
_LOOPBACK = ("localhost", "::1", "0.0.0.0", "ip6-localhost", "localhost.localdomain")


def identities(source: str | Path) -> Identities:
    """Return the identities behind a path, a folder, a pattern or an address; a common one is an overlap."""
    text = str(source)
    if is_postgres(text):
        return frozenset({("address", *_postgres_parts(text))})
    if "://" in text and not text.lower().startswith("file:"):
        return frozenset({("address", text)})
    return frozenset({_path(real_path(text)), *identities_of(text)})


def _postgres_parts(address: str) -> tuple[str, str, str]:
    """Return host, port and database of any spelling of an address; all loopback names are one host."""
    parts = urlsplit(address)
    options = {name.lower(): given[-1] for name, given in parse_qs(parts.query).items()}
    host = options.get("host", unquote(parts.hostname or "")) or options.get("hostaddr", "")
    port = options.get("port", str(parts.port or ""))
    database = options.get("dbname", unquote(parts.path).strip("/"))
    here = not host or host.startswith(("/", "127.")) or host.lower() in _LOOPBACK
    return "localhost" if here else host.lower().rstrip("."), port or "5432", database


def check_people(sections: Sequence[Section], tables: Sequence[ServedTable], populations: Mapping[str, Pool]) -> None:
    """Refuse two tables of one source without a common population: the same people would have two budgets.

    The same holds in a partitioned population, whose tables must have no person in common.
    """
    held = [identities(table.source) for table in tables]
    for place, (section, table) in enumerate(zip(sections, tables, strict=True)):
        for other, known in zip(tables[:place], held, strict=False):
            above = None if table.population is None else populations[table.population]
            apart = above is None or above.partitioned_by is not None or table.population != other.population
            if held[place] & known and apart and not section.values.get("other_people"):
                section.refuse(
                    f"{table.name!r} and {other.name!r} have a common source and no common population that sums "
                    "their costs, so the same people would have two budgets; name a population without partitioned_by "
                    "for both, or set other_people = true",
                    key="source",
                )


def check_earlier_tables(config: ServerConfig, ledger: Ledger) -> None:
    """Refuse a table whose source was served, and spent from, under another name: a new name is no new budget.

    What was served is remembered in the ledger, by the path or address of the source and of each file of it at each
    start, and by the files' inodes and times, which a renamed file keeps; not by size, which depends on the rows. A
    folder, a pattern and single files of it are recognised in each other. A copy, or a file that was written anew
    elsewhere, is the curator's to declare.
    """
    earlier = {scope.scope_id: scope for scope in ledger.scopes()}
    served: dict[str, set[str]] = {}
    for note in read_notes(ledger, _SERVED):
        mark, _, name = note.partition(" ")
        served.setdefault(mark, set()).add(name)
    for table in config.tables.values():
        above = None if table.population is None else config.populations[table.population]
        adds_up = above is not None and above.partitioned_by is None
        found = set[str]().union(*(served.get(mark, ()) for mark in _marks(table.source, folders=True)))
        for name in sorted(found & earlier.keys() - {table.name}):
            known, now = earlier[name], config.tables.get(name)
            declared = table.other_people or (now is not None and now.other_people)
            counted = adds_up and known.definition.parent_id == table.population
            if not counted and not declared and known.totals() != Totals.zero():
                raise PlanError(
                    f"the source of {table.name!r} was served as {name!r}, whose people have a budget and used "
                    f"some of it; call the table {name!r} again, or say other_people = true if its rows are of "
                    "other people now"
                )


def remember_tables(config: ServerConfig, ledger: Ledger) -> None:
    """Remember in the ledger, for good, from which sources and files the tables are served."""
    tables = config.tables.values()
    marks = {f"{mark} {table.name}" for table in tables for mark in _marks(table.source, folders=False)}
    keep_notes(ledger, _SERVED, dict.fromkeys(marks, ""))


def _marks(source: str, *, folders: bool) -> Iterator[str]:
    """Yield what a source and its files are recognised by in years: inodes alone are used again for other files.

    With `folders` also the folders around the files: a file of a folder that was served is one of its files.
    """
    named = {str(each) for each in identities(source) if isinstance(each[0], str)}
    for file in files_of(source):
        path, beside = Path(real_path(file)), Path(real_path(os.path.dirname(file)))
        around = (*path.parents, beside, *beside.parents) if folders else ()  # of the file, and of a link to it
        named |= {str(_path(each)) for each in (path, *around)}
        with contextlib.suppress(OSError):  # a link to nothing
            found = os.stat(file)
            named.add(f"file {found.st_ino} {found.st_mtime_ns}")
    for each in sorted(named):
        yield hashlib.sha256(each.encode(errors="surrogatepass")).hexdigest()


def _path(path: str | Path) -> tuple[str, str]:
    return "path", str(path)


def check_files(config: ServerConfig, whole: Section, public: Mapping[str, Section]) -> None:
    """Refuse a file with two roles, and a scratch folder that contains such a file: it is emptied."""
    sources = {f"the source of {name!r}": identities(table.source) for name, table in config.tables.items()}
    for name, (file, _) in config.public.items():
        for what, known in sources.items():
            if identities(file) & known:
                public[name].refuse(f"it is {what}: the private source must not be public", key="path")
    own = dict(_own_files(config))
    seen: dict[tuple[str | int, ...], str] = {}
    for what, file in own.items():
        for each in identities(file):
            if each in seen:
                whole.refuse(f"{what} and {seen[each]} are one file ({file.name!r}); give each its own")
            seen[each] = what
        for name, table in config.tables.items():
            if "://" not in table.source and would_be_read(file, table.source):
                whole.refuse(f"{what} would be a file of the private source {name!r}; give it another place")
    others = {**sources, **{f"public {name!r}": identities(file) for name, (file, _) in config.public.items()}}
    for what, known in others.items():
        for each in known & seen.keys():
            whole.refuse(f"{seen[each]} and {what} are one file; give each its own")
    scratch = config.work.scratch.resolve()
    places = {**own, "the configuration": config.folder, "TLS certificate": config.listen.certificate}
    places |= {f"the source of {name!r}": Path(table.source) for name, table in config.tables.items()}
    places |= {f"public {name!r}": file for name, (file, _) in config.public.items()}
    for what, place in places.items():
        if place is not None and (place.resolve() == scratch or scratch in place.resolve().parents):
            whole.refuse(f"the scratch folder contains {what}, and it is emptied; give it a folder of its own")


def _own_files(config: ServerConfig) -> Iterator[tuple[str, Path]]:
    """Yield the files that the server writes or keeps secret, with their SQLite and lock files."""
    ledger = parse_place(config.ledger).path
    for what, file, beside in (
        ("the ledger", ledger, BESIDE),
        ("the store of tokens", None if isinstance(config.store, str) else config.store, (*BESIDE, ".lock")),
        ("the ledger's key", config.key_file, ()),
        ("the head file", config.head_file, (".lock", ".new")),
        ("the audit log", config.audit, ()),
        ("the proxy's secret", None if config.proxy is None else config.proxy.secret_file, ()),
    ):
        if file is not None:
            yield what, file
            for ending in beside:
                yield f"{what} ({ending})", file.with_name(file.name + ending)
