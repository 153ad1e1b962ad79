"""What is made of a release: rows, tables, answers, reports."""
