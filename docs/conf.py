"""Sphinx: Markdown pages and the API reference from docstrings; no network, neither at building nor at reading time."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

project = "sidelight"
author = project_copyright = "The sidelight developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_math_renderer = "mathml"  # the usual one loads a script from a network
html_static_path = ["_static"]
html_css_files = ["sidelight.css"]
exclude_patterns = ["_build"]
default_role = "py:obj"  # `Quantiles` in a docstring is a link where there is such a name
add_module_names = False
autodoc_preserve_defaults = True
maximum_signature_line_length = 100
napoleon_custom_sections = ["Guarantee", "Accuracy"]
napoleon_use_param = False  # one entry may be for several arguments


def setup(app: Any) -> None:
    """Write the pages of the reference before they are read, and read docstrings as they are meant."""
    import api_pages
    import plan_keys
    from sphinx.util.inspect import signature, stringify_signature

    def text(_app: Any, what: str, _name: str, found: Any, _options: Any, lines: list[str]) -> None:
        if what == "property":  # again after napoleon, which takes what stands before a colon for its type
            lines[:] = (inspect.getdoc(found) or "").splitlines()
        api_pages.as_restructured_text(lines)

    def property_text(app: Any, what: str, *rest: Any) -> None:
        if what == "property":
            text(app, what, *rest)

    def arguments(_app: Any, what: str, _name: str, found: Any, _options: Any, given: Any, returned: Any) -> Any:
        if what == "class" and found.__new__ is not object.__new__ and inspect.isfunction(found.__init__):
            told = signature(found.__init__, bound_method=True)  # `__new__` takes anything
            given = stringify_signature(told, show_return_annotation=False, unqualified_typehints=True)
        return api_pages.named_types(given), api_pages.named_types(returned)

    app.connect("builder-inited", lambda app: api_pages.write(Path(app.srcdir) / "reference" / "api"))
    app.connect("builder-inited", lambda app: plan_keys.write(Path(app.srcdir) / "reference" / "plan-keys.md"))
    app.connect("autodoc-process-docstring", text, priority=100)
    app.connect("autodoc-process-docstring", property_text, priority=900)
    app.connect("autodoc-process-signature", arguments)
