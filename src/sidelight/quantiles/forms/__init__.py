"""How many quantiles are released at once: the forms between which public numbers choose."""
