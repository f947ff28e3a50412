"""The channels, one file for each kind."""

# The configuration reads the kinds from this folder: load it before any of them.
import lagwatch.config  # noqa: F401
