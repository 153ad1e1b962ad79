"""The client of an analyst server: the queries of a session over HTTP."""

from sidelight.client.remote import AsyncRemote, Remote, connect, connect_async
from sidelight.client.remote_answers import Pending, RemotePrice, RemoteTable

__all__ = ["AsyncRemote", "Pending", "Remote", "RemotePrice", "RemoteTable", "connect", "connect_async"]
