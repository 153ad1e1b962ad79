"""What did it cost me? Published privacy reports, and the bound that one person computes from one row."""

from sidelight.privacy_page.published import SCHEMA, Feature, PublishedReport, Scope, read_report

__all__ = ["SCHEMA", "Feature", "PublishedReport", "Scope", "read_report"]
