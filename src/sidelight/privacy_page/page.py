"""From a published report to one HTML file: template, style, script and the report itself, and nothing from elsewhere.

Hand-made rather than bundled by a tool: the files are joined in a fixed order, and the policy of the page names the
hashes of this style and this script. A browser that keeps it runs nothing else, loads nothing and sends nothing.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup

from sidelight.privacy_page.bound import AnyReport, read_report
from sidelight.readable import shown_script
from sidelight.version import VERSION

#: In the order in which they are joined; what stands below uses what stands above.
SCRIPTS = ("encoding.js", "bound.js", "descent.js", "additive.js", "words.js", "form.js", "answer.js", "page.js")


def privacy_page(report: AnyReport | dict[str, Any] | str | bytes) -> str:
    """Return the page of a published report as one HTML text.

    A person opens it, enters their own row and reads what the release revealed about them at most. The bound is
    computed in the browser. The page makes no request and stores nothing; its policy forbids both. Of a model that
    was made with seeded noise the page says first of all that it is not private.

    Raises:
        SchemaError: a field of the report is missing, unknown, of another version or out of range; the message names
            the field.
    """
    known = read_report(report)
    from jinja2 import Environment, PackageLoader, StrictUndefined

    style, script = _text("page.css"), _script()
    environment = Environment(
        loader=PackageLoader("sidelight.privacy_page", "template"), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html").render(
        policy=policy(style=style, script=script),
        style=Markup(style),
        script=Markup(script),
        report=Markup(embedded(known.to_dict())),
        seeded=known.entropy is not None,
        version=VERSION,
    )


def policy(*, style: str, script: str) -> str:
    """Return the Content-Security-Policy: this style and this script, no connection of any kind, no form target."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; connect-src 'none'; "
        "img-src 'none'; font-src 'none'; base-uri 'none'; form-action 'none'"
    )


def embedded(value: Any) -> str:
    r"""Write a value as JSON that can stand inside a script element: nothing in it can end the element.

    >>> embedded({"name": "</script><b>"})
    '{"name":"\\u003c/script\\u003e\\u003cb\\u003e"}'
    """
    text = msgspec.json.encode(value).decode()
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _script() -> str:
    joined = "\n".join([shown_script(), *map(_text, SCRIPTS)])
    return f'"use strict";\n(() => {{\n{joined}}})();\n'


def _text(name: str) -> str:
    return files("sidelight.privacy_page").joinpath("template", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
