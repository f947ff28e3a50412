"""Traces of groups that catch up, and forecasts replayed against them."""
