"""Which groups and topics are monitored, by the regular expressions of the configuration."""

import re
from functools import lru_cache

import structlog

from lagwatch.config import ClusterSettings
from lagwatch.core.words import LONGEST_GROUP

_log = structlog.get_logger(__name__)


class NameFilter:
    """Keeps a name that `allow` is found in and `deny` is not; "" filters nothing."""

    def __init__(self, *, allow: str, deny: str) -> None:
        self._allow = re.compile(allow) if allow else None
        self._deny = re.compile(deny) if deny else None
        self.keeps = lru_cache(maxsize=65_536)(self._keeps)

    def _keeps(self, name: str) -> bool:
        if self._allow is not None and self._allow.search(name) is None:
            return False
        return self._deny is None or self._deny.search(name) is None


class Filters:
    """The filters of one cluster."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._groups = NameFilter(allow=settings.group_allow, deny=settings.group_deny)
        self._refused = False
        self._topics = NameFilter(allow=settings.topic_allow, deny=settings.topic_deny)

    def group(self, name: str) -> bool:
        return self._groups.keeps(name) if len(name) <= LONGEST_GROUP else self._refuse(name)

    def topic(self, name: str) -> bool:
        return self._topics.keeps(name)

    def commit(self, group: str, topic: str) -> bool:
        """True if a commit of this group on this topic is monitored."""
        return self.group(group) and self._topics.keeps(topic)

    def _refuse(self, name: str) -> bool:
        """False; the log says it of the first such group."""
        if not self._refused:
            self._refused = True
            _log.warning("group_name_too_long", most=LONGEST_GROUP, begins=name[:60])
        return False
