"""`[listen]` and `[identity] proxy`: the server's address and its trusted proxies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from sidelight.errors import nearest
from sidelight.plans.forms import TEXT, TEXTS, WHOLE, KeyForm
from sidelight.plans.section import Section
from sidelight.plans.tables import REQUIRED, PlanKey, TableForm
from sidelight.server.config import ProxyIdentity, ServedTable, ServerAddress
from sidelight.web import is_loopback


def keys_of(*required: str, **forms: KeyForm) -> TableForm:
    """Return the form of a section: its keys, and which of them are required."""
    return TableForm(
        keys={key: PlanKey(key, form, REQUIRED if key in required else None) for key, form in forms.items()}
    )


_LISTEN = keys_of(host=TEXT, port=WHOLE, names=TEXTS, behind_proxy=TEXTS, certificate=TEXT, key=TEXT, admin=TEXT)
_PROXY = keys_of("header", "secret_file", "addresses", header=TEXT, secret_file=TEXT, addresses=TEXTS)


def read_listen(section: Section, folder: Path) -> ServerAddress:
    """Read the server's address; plain HTTP is allowed on the loopback interface only."""
    given = _LISTEN.read_values(section)
    _check_networks(section, "behind_proxy", given.get("behind_proxy", ()))
    if ("certificate" in given) != ("key" in given):
        section.refuse("TLS needs both certificate and key")
    files = ("certificate", "key")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else folder / value if name in files else value
        for name, value in given.items()
    }
    found = ServerAddress(**values)
    if found.certificate is None and not found.behind_proxy and not is_loopback(found.host):
        section.refuse(
            f"listening on {found.host!r} without TLS would send tokens in the clear; name certificate and key, or the "
            "addresses of a proxy in behind_proxy",
            key="host",
        )
    if not 0 <= found.port <= 65535:
        section.refuse(f"port must lie in 0..65535, got {found.port}", key="port")
    if found.admin is not None and not is_loopback(found.admin.rpartition(":")[0]):
        section.refuse("the admin address must be a loopback address, such as 127.0.0.1:8473", key="admin")
    return found


def read_proxy(
    section: Section, identity: Mapping[str, Any], folder: Path, tables: Sequence[ServedTable]
) -> ProxyIdentity | None:
    """Read the trusted proxy and the analysts that it may name."""
    names = identity.get("names", {})
    if "proxy" not in identity:
        if names:
            section.refuse("names map a proxy's names to analysts; add proxy = {...}, or leave them out", key="names")
        return None
    given = _PROXY.read_values(identity["proxy"])
    _check_networks(identity["proxy"], "addresses", given["addresses"])
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", given["header"]) or not given["addresses"]:
        identity["proxy"].refuse("header is the name of a header, and addresses are networks of the proxy")
    analysts = {name for table in tables for each in table.accounts for name in each.members}
    unknown = next((name for name in names.values() if name not in analysts), None)
    if unknown is not None or not names:
        section.refuse(f"names maps the proxy's names to analysts; {nearest(str(unknown), analysts)}", key="names")
    return ProxyIdentity(
        header=given["header"],
        secret_file=folder / given["secret_file"],
        addresses=tuple(given["addresses"]),
        names=dict(names),
    )


def _check_networks(section: Section, key: str, given: Sequence[str]) -> None:
    for network in given:
        try:
            ip_network(network)
        except ValueError:
            section.refuse(f"{network!r} is not a network such as 127.0.0.1/32", key=key)
