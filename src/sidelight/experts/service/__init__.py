"""Rounds over HTTP: a service that takes noisy reports and loses none, and the client that sends them."""
