"""Kinds of stores, as the Spark jobs see them: a file or folder each, found by its name."""
