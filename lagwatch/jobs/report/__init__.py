"""The nightly report: one day of all groups as a page, as JSON with the same numbers, as text."""
