"""Everyday statistics by group: what noise to add, and what to make of it afterwards.

Everything here is public arithmetic: norms, shares and noise levels are fixed before any data is opened, and estimates,
intervals and shrinkage see released numbers only (summaries proof page).
"""
