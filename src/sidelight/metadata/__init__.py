"""Schemas from and for other tools: CSVW with its extension for privacy, SmartNoise, Frictionless, Croissant."""

from sidelight.metadata.files import MetadataColumn, read_metadata, write_metadata

__all__ = ["MetadataColumn", "read_metadata", "write_metadata"]
