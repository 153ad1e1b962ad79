"""Methods as papers print them, on the same mechanisms and ledger; each says which query we recommend instead."""

from __future__ import annotations
