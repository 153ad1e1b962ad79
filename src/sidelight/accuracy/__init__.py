"""How accurate a query is before it runs, and which price an accuracy needs; nothing is opened, nothing is charged."""
