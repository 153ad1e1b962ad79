"""The page on which a person reads what a release revealed about them: one self-contained HTML file."""

from sidelight.privacy_page.page.assemble import privacy_page

__all__ = ["privacy_page"]
