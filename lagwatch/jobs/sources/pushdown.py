"""Passes Spark's filters to a data source, where a caller has opted in.

Spark 4 plans a Python data source once for each DataFrame: where one is used twice in a query, with
different filters, both uses get the rows of the filters that were planned first, and no filter is
applied to them again. Silently wrong rows are worse than rows read in vain, so filters are passed
on only with `.option("pushdown", "true")`, for a DataFrame that is used once in its queries.
Options narrow a source in any case.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from pyspark.sql.datasource import Filter

OPTION: Final = "pushdown"


class Narrowed(Protocol):
    """A reader that can answer filters."""

    def narrow(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that the source can answer; return those that Spark must apply."""
        ...


class Filtered:
    """Makes such a reader take the filters of Spark; comes before it among the bases."""

    def pushFilters(self: Narrowed, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 Spark's name
        return self.narrow(filters)


def asked(options: Mapping[str, str]) -> bool:
    """True if the options allow filters to be passed on."""
    return options.get(OPTION, "").lower() == "true"
