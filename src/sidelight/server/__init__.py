"""A server for analysts who never see a row: every answer is a release, charged first, in a public time slot.

The libraries of the extra `[service]` are loaded when a server starts, not before.
"""
