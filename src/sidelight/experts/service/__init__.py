"""Rounds over HTTP: a service that takes noisy reports and loses none, and the client that sends them.

The libraries of the extra `[service]` are loaded when a service or a client starts, not before.
"""
