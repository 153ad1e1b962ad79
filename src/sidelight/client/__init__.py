"""The client of an analyst server: the same queries as a session's, asked over HTTP."""

from sidelight.client.remote import Remote, connect
from sidelight.client.remote_answers import Pending, RemotePrice, RemoteTable

__all__ = ["Pending", "Remote", "RemotePrice", "RemoteTable", "connect"]
