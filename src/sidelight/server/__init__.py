"""A server for analysts without access to rows: answers are releases, charged first, in public time slots.

The libraries of the extra `[service]` are loaded when a server starts, not before.
"""
