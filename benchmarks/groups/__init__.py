"""The targets, one file a group: the name of the file is the name of the group, and its `TARGETS` are its lines."""
