"""Sphinx: Markdown pages and the API reference from docstrings; no network, neither at building nor at reading time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

project = "sidelight"
author = "The sidelight developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
exclude_patterns = ["_build"]
default_role = "py:obj"  # `Quantiles` in a docstring is a link where there is such a name
add_module_names = False
autodoc_preserve_defaults = True
maximum_signature_line_length = 100
napoleon_custom_sections = ["Guarantee", "Accuracy"]
napoleon_use_param = False  # one entry may be for several arguments


def setup(app: Any) -> None:
    """Write the pages of the reference before they are read."""
    import api_pages

    def read(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
        api_pages.as_restructured_text(lines)

    app.connect("builder-inited", lambda app: api_pages.write(Path(app.srcdir) / "reference" / "api"))
    app.connect("autodoc-process-docstring", read, priority=100)
