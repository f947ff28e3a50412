"""Protocols at which packages meet, and their values; one conversation per file."""
