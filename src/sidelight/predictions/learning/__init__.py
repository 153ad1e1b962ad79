"""Learning predictions, from public data, from earlier releases, or privately. Import from the file of each idea."""
