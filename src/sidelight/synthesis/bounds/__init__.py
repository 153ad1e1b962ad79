"""How far off a release can be, from released numbers alone."""
