"""An integer that depends on a person's id alone, the same on every engine: the first 60 bits of MD5 of the id's text.

It only spreads the choice of a person's rows (it is one input of a mix); persons are told apart by the id itself, so a
collision harms nothing, and MD5's weaknesses do not matter. MD5 because every engine has it.
"""

from __future__ import annotations

import hashlib


def person_key(text: str) -> int:
    """Return 60 bits of the text's MD5.

    >>> person_key("abc")
    648541476951500027
    """
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return int(digest[:15], 16)
