"""Kinds of stores, as the service sees them: a file each, found by its name."""
