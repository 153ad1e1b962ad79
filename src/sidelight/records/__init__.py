"""Where rows come from, the public schema, and what is declared about each column. No statistic lives here."""

from sidelight.records import fold
from sidelight.records.columns import Category, Column, Label, Number, PersonId
from sidelight.records.database import Database, per_person
from sidelight.records.dates import Date
from sidelight.records.keys import Key, PersonVia, Reference
from sidelight.records.missing import Drop, Fill
from sidelight.records.omop_tables import omop
from sidelight.records.paired_views import PairedView
from sidelight.records.schema import Schema
from sidelight.records.table import Table
from sidelight.records.views import View
from sidelight.records.windows import Window

__all__ = [
    "Category",
    "Column",
    "Database",
    "Date",
    "Drop",
    "Fill",
    "Key",
    "Label",
    "Number",
    "PairedView",
    "PersonId",
    "PersonVia",
    "Reference",
    "Schema",
    "Table",
    "View",
    "Window",
    "fold",
    "omop",
    "per_person",
]
