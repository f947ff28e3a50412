"""Typed configuration: one file per section; `load` lists every fault at once."""

# settings of other sections are imported from their modules: collectors need those of clusters only
from lagwatch.config.cluster import ClusterSettings, SaslSettings, TlsSettings

__all__ = ["ClusterSettings", "SaslSettings", "TlsSettings"]
