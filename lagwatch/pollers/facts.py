"""Facts of a collector: its mode, what it cannot see, what it cannot decode."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from lagwatch.clock import Clock
from lagwatch.core.wire import DecodeFault, Quarantined
from lagwatch.pollers.loop import Send
from lagwatch.ports.reports import CollectorFacts

_NAMED: Final = 20
"""Names listed one by one; beyond that, their number."""
_SEND_EVERY_S: Final = 1.0
_LOG_EVERY_S: Final = 60.0

_log = structlog.get_logger(__name__)


class Facts:
    """Gathers facts from all pollers and reports them when they change, at most once a second."""

    def __init__(self, *, clock: Clock, send: Send, commits_mode: str) -> None:
        self._clock = clock
        self._send = send
        self._mode = commits_mode
        self._reason = ""
        self.offsets_retention_ms: int | None = None
        self.offsets_retention_refused = False
        self._unseen: dict[str, tuple[str, ...]] = {}
        self._malformed: Counter[str] = Counter()
        self._logged_s: dict[str, float] = {}
        self._reported: CollectorFacts | None = None
        self._sent_s = -_SEND_EVERY_S

    def fall_back(self, mode: str, reason: str) -> None:
        """The offsets topic cannot be read: `mode` is in use now."""
        self._mode, self._reason = mode, reason
        _log.warning("commits_fall_back", mode=mode, reason=reason)

    def unseen(self, about: str, sentences: Sequence[str]) -> None:
        """Replace the sentences `about` something; each names what is invisible."""
        now = tuple(sentences)
        if now == self._unseen.get(about, ()):
            return
        self._unseen[about] = now
        for sentence in now:
            _log.warning("not_visible", about=about, reason=sentence)

    def count_malformed(self, counts: Mapping[DecodeFault, int]) -> None:
        """Add records that could not be decoded."""
        self._malformed.update({fault.value: count for fault, count in counts.items()})

    def show(self, records: Iterable[Quarantined]) -> None:
        """Log refused records, one for each reason and minute."""
        now_s = self._clock.monotonic_s()
        for record in records:
            reason = record.fault.value
            if now_s - self._logged_s.get(reason, -_LOG_EVERY_S) < _LOG_EVERY_S:
                continue
            self._logged_s[reason] = now_s
            _log.warning(
                "malformed_record",
                reason=reason,
                order=record.order,
                key=record.key.hex() if record.key is not None else None,
                total=self._malformed[reason],
            )

    async def send(self, *, now: bool = False) -> None:
        """Send the facts if they changed; `now`: even if the last ones are not a second old."""
        if not now and self._clock.monotonic_s() - self._sent_s < _SEND_EVERY_S:
            return
        facts = CollectorFacts(
            commits_mode=self._mode,
            reason=self._reason,
            unseen=tuple(each for about in sorted(self._unseen) for each in self._unseen[about]),
            malformed=dict(self._malformed),
            offsets_retention_ms=self.offsets_retention_ms,
            offsets_retention_refused=self.offsets_retention_refused,
        )
        self._sent_s = self._clock.monotonic_s()
        if facts != self._reported:
            self._reported = facts
            await self._send(facts)


def sentences(names: Iterable[str], text: str) -> tuple[str, ...]:
    """`text` for each name, `{name}` filled in; many names are summed up."""
    ordered = sorted(names)
    named = [text.format(name=name) for name in ordered[:_NAMED]]
    left = len(ordered) - _NAMED
    return (*named, *([f"and {left} more like this"] if left > 0 else []))
