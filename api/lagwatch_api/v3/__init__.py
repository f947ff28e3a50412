"""Burrow's HTTP API, version 3: same routes, words, shapes, codes and content types."""
