"""Where rows come from, the public schema, and what is declared about each column. No statistic lives here."""

from sidelight.records.columns import Category, Column, Label, Number, PersonId
from sidelight.records.dates import Date
from sidelight.records.missing import Drop, Fill
from sidelight.records.schema import Schema
from sidelight.records.table import Table

__all__ = ["Category", "Column", "Date", "Drop", "Fill", "Label", "Number", "PersonId", "Schema", "Table"]
