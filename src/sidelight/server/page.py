"""The page of a server: HTML, CSS and JavaScript of the package, allowed by hash; nothing external."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from sidelight.readable import shown_script

_FOLDER = files("sidelight.server") / "page_files"
_STYLE = (_FOLDER / "page.css").read_text(encoding="utf-8")
_SCRIPT = f'"use strict";\n{shown_script()}{(_FOLDER / "page.js").read_text(encoding="utf-8")}'


#: The style of reports, which are shown in a frame that has this page's policy.
_REPORT_STYLE = (files("sidelight") / "report" / "templates" / "report.css").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


PAGE = (
    (_FOLDER / "page.html")
    .read_text(encoding="utf-8")
    .replace("/*style*/", _STYLE, 1)
    .replace("/*script*/", _SCRIPT, 1)
)
#: Style attributes, such as the width of a bar, occur only in reports: this page inserts text only.
PAGE_POLICY = (
    f"default-src 'none'; style-src-elem {_hash(_STYLE)} {_hash(f'{chr(10)}{_REPORT_STYLE}{chr(10)}')}; "
    f"style-src-attr 'unsafe-inline'; script-src {_hash(_SCRIPT)}; connect-src 'self'; img-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
