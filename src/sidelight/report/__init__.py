"""Reports: a self-contained HTML page of releases, their guarantees, and the remaining budget."""

from sidelight.report.contents import Account, Comparison, Contestant, Item, Report, Use, report_from_json
from sidelight.report.render import check_writable, disclosure_page, render, whole_file, write_report, write_text

__all__ = [
    "Account",
    "Comparison",
    "Contestant",
    "Item",
    "Report",
    "Use",
    "check_writable",
    "disclosure_page",
    "render",
    "report_from_json",
    "whole_file",
    "write_report",
    "write_text",
]
