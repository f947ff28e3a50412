"""The pure core: numpy and the standard library; no I/O, no clock, no threads."""
