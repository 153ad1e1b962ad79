"""The ledger: a durable record of charges, on SQLite or PostgreSQL.

A charge is committed before any data is opened and is never given back; concurrent sessions cannot overspend together;
the history is append-only and hash-chained. SQLAlchemy is imported when the first ledger is opened.
"""

from sidelight.ledger.chain import LedgerEvent, now_utc
from sidelight.ledger.decide import FailReason, Stored
from sidelight.ledger.entries import LedgerEntry, State
from sidelight.ledger.exchange import Imported
from sidelight.ledger.ledger import Ledger, open_ledger
from sidelight.ledger.reservation import Reservation
from sidelight.ledger.scope import Scope
from sidelight.ledger.verify import Rederive, Verification

__all__ = [
    "FailReason",
    "Imported",
    "Ledger",
    "LedgerEntry",
    "LedgerEvent",
    "Rederive",
    "Reservation",
    "Scope",
    "State",
    "Stored",
    "Verification",
    "now_utc",
    "open_ledger",
]
