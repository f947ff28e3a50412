"""Section `[server]`: where the HTTP server listens."""

from typing import Annotated

from pydantic import AfterValidator, Field

from lagwatch.config.address import split
from lagwatch.config.section import Section

_EXAMPLE = "127.0.0.1:8000"


def _listens(address: str) -> str:
    split(address, lowest_port=0, example=_EXAMPLE)
    return address


class ServerSettings(Section):
    """The HTTP server: API, page and metrics."""

    address: Annotated[str, AfterValidator(_listens)] = Field(
        default=_EXAMPLE,
        json_schema_extra={"format": "host:port"},
        description="address to listen on; `:8000` means all interfaces, port 0 any free port",
    )

    @property
    def host(self) -> str:
        """Host or address to bind; "0.0.0.0" when none is written."""
        return self._split()[0] or "0.0.0.0"  # noqa: S104 an empty host asks for all interfaces

    @property
    def port(self) -> int:
        """Port to bind; 0 means any free one."""
        return self._split()[1]

    def _split(self) -> tuple[str, int]:
        return split(self.address, lowest_port=0, example=_EXAMPLE)
