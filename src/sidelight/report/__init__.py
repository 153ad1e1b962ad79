"""Reports: one self-contained HTML page about what was released, with what guarantee, and what is left."""

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
