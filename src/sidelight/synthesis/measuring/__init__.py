"""The private side: prices, exact counts, selections and noisy measurements, round by round."""
