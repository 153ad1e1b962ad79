"""What did it cost me? Published privacy reports, and the bound that one person computes from one row."""

from sidelight.privacy_page.bound import bounds_of_rows, read_report, report_bound
from sidelight.privacy_page.published import SCHEMA, Feature, Member, PublishedReport, Scope
from sidelight.privacy_page.stepwise_reports import DescentReport

__all__ = [
    "SCHEMA",
    "DescentReport",
    "Feature",
    "Member",
    "PublishedReport",
    "Scope",
    "bounds_of_rows",
    "read_report",
    "report_bound",
]
