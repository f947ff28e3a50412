"""Backfill: the history of the time in which lagwatch did not run, judged by the live code."""
