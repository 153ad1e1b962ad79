"""Formulas as MathML, which browsers draw themselves: nothing is loaded from a network, and no script runs."""

from __future__ import annotations

from typing import Any


def _inline(writer: Any, node: Any) -> None:
    from docutils import nodes
    from latex2mathml.converter import convert

    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: Any) -> None:
    from docutils import nodes
    from latex2mathml.converter import convert

    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Draw inline and displayed formulas as MathML."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True}
