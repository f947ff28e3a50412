"""The one exception tree.

```
LagwatchError
├── ConfigError      the configuration cannot be used; lists every fault at once
├── InputError       a file or argument given by the user cannot be used
├── NotFoundError    a cluster, group or topic that is not known
├── AmbiguousError   several ids begin with what was given
├── NameTakenError   a name that something else already has
├── PositionError    reported progress cannot be right
├── RollbackError    offsets cannot set a group of this kind back
├── SourceError      Kafka refused or did not answer; `kind` says how
├── ProgressError    progress that a job keeps outside of Kafka cannot be read
├── NotifyError      a receiver of notices refused or did not answer
├── HistoryError     a history store refused, did not answer or holds what it must not
├── JobError         a Spark job cannot begin or go on
└── MissingPartError this machine has no fit Java, or no jars of a server and no way to get them
```
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, unique

from lagwatch.hiding import hide


class LagwatchError(Exception):
    """Base of all exceptions that lagwatch raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong with the configuration."""

    key: str
    """Dotted path, as written in the file: `clusters.prod.bootstrap`."""
    value: str
    """The offending value, secrets redacted; "" when the key is missing."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        shown = f" = {self.value}" if self.value else ""
        return f"{self.key}{shown}: {self.problem}. {self.remedy}"


class ConfigError(LagwatchError):
    """The configuration cannot be used; carries all faults, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class InputError(LagwatchError):
    """A document given to `explain` or `replay` is not usable; says where."""

    def __init__(self, *, index: int, field: str, problem: str) -> None:
        self.index = index
        self.field = field
        self.problem = problem
        super().__init__(f"item {index}, field {field!r}: {problem}")


class NotFoundError(LagwatchError):
    """This cluster, group or topic is not known."""

    def __init__(self, *, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"{kind} {name!r} is not known")


class AmbiguousError(LagwatchError):
    """Several ids begin with what was given."""

    def __init__(self, *, kind: str, start: str, ids: Sequence[str]) -> None:
        super().__init__(
            f"several {kind}s begin with {start!r}: {', '.join(ids)}; write more of it"
        )


class NameTakenError(LagwatchError):
    """Something else has this name; the text says what."""


class PositionError(LagwatchError):
    """Reported progress cannot be right; the text says what, and what to send instead."""


class RollbackError(LagwatchError):
    """Offsets cannot set a group of this kind back; the text says what can."""


class SourceError(LagwatchError):
    """Kafka refused or did not answer.

    `kind` is one of `authentication`, `tls`, `connection`, `authorization`, `timeout`,
    `coordinator`, `leader`, `protocol`, `died`: a stable word for logs and labels. The text says
    what to do.
    """

    def __init__(self, *, cluster: str, kind: str, message: str, retryable: bool = True) -> None:
        self.cluster = cluster
        self.kind = kind
        self.retryable = retryable
        super().__init__(message)


class ProgressError(LagwatchError):
    """Progress that a job keeps outside of Kafka cannot be read; the text says why."""


class HistoryError(LagwatchError):
    """A history store or its spool refused, did not answer or holds what it must not.

    `kind` is one of `connection`, `timeout`, `authentication`, `authorization`, `overloaded`,
    `disk_full`, `io`, `schema`, `corrupt`, `rejected`, `closed`: a stable word for logs and
    labels. The text says what to do. With `retryable` the same call may succeed later.
    """

    def __init__(self, *, store: str, kind: str, message: str, retryable: bool) -> None:
        self.store = store
        self.kind = kind
        self.retryable = retryable
        super().__init__(hide(message))


@unique
class Refusal(StrEnum):
    """Why a receiver did not accept a message: decides what is tried next."""

    UNAVAILABLE = "unavailable"
    """No answer, or one that says to come again: 408, 425, 429."""
    FAILED = "failed"
    """5xx: the receiver is down, or it fails on what is in the message."""
    CUT = "cut"
    """The connection ended in the middle of the request: the receiver may be down, or a proxy may
    cut what is too large."""
    TOO_LARGE = "too_large"
    """413, or more than the channel's limit: smaller messages may pass."""
    NOT_ACCEPTED = "not_accepted"
    """The receiver's address or credentials are wrong: 401, 403, 404 and redirects."""
    CONTENT = "content"
    """This message is wrong for the receiver: 400, 422 and the like."""
    SOME_RECIPIENTS = "some_recipients"
    """Delivered to the others: the same message again would reach those twice."""


class NotifyError(LagwatchError):
    """A receiver of notices refused or did not answer.

    The text says what it answered; it holds no secret.
    """

    def __init__(
        self,
        *,
        channel: str,
        message: str,
        retryable: bool,
        retry_after_s: float | None = None,
        refusal: Refusal | None = None,
    ) -> None:
        self.channel = channel
        self.retryable = retryable
        """Whether the same message may pass within minutes."""
        self.retry_after_s = retry_after_s
        """When the receiver wants to be asked again; None when it did not say."""
        self.refusal = refusal or (Refusal.UNAVAILABLE if retryable else Refusal.CONTENT)
        super().__init__(hide(message))


class JobError(LagwatchError):
    """A Spark job cannot begin or go on.

    `kind` is one of `locked`, `fenced`, `spark`, `input`: a stable word for logs and labels. The
    text says what to do. With `retryable` the same command may succeed later.
    """

    def __init__(self, *, kind: str, message: str, retryable: bool) -> None:
        self.kind = kind
        self.retryable = retryable
        super().__init__(message)


class MissingPartError(LagwatchError):
    """This machine has no suitable Java, or lacks a server's jars and cannot download them."""
