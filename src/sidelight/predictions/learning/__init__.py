"""Learning predictions from public data, or from what was released. Import from the file of each idea."""
