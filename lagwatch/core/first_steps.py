"""What to do first about a group in trouble: steps that causes share, and those without a cause.

The likeliest step comes first; notices show the first two, the page all. Steps of a single cause
are in its row of `causes.CAUSES`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from lagwatch.core.case import Case
from lagwatch.core.model import PartitionStatus, PartitionVerdict, Rule

Steps = Sequence[str]

RETIRED: Final = "Retired on purpose? Delete the group in Kafka; it then disappears here."
_FAILING_MESSAGE: Final = (
    "around the committed offset: a message that it cannot process is the usual cause. Skip or "
    "repair it; a restart meets it again."
)
READ_ITS_LOG: Final = f"Read the log of the owner {_FAILING_MESSAGE}"
THREAD_DUMP: Final = "Take a thread dump of the owner: it may hang on a database or a lock."
START: Final = (
    "The service of the group is down: start it.",
    "It runs? Then it uses another group id, or assigns partitions itself.",
    RETIRED,
)
SUBSCRIPTION: Final = (
    "Look at the topics that the members subscribe to: this one may be missing.",
    "It is not? Restart the members one by one, so that the partitions are assigned anew.",
)
STALLED: Final = (READ_ITS_LOG, THREAD_DUMP)
STALLED_WITHOUT_MEMBERS: Final = (
    "Find the program that commits: it is no member, so it assigns partitions itself.",
    f"Read its log {_FAILING_MESSAGE}",
)
SLOW: Final = (
    "Compare the rates: is more produced than usual, or less read?",
    "More produced: add members, up to the number of partitions.",
    "Less read: look for a deployment, a slow database, one slow partition.",
)
WENT_BACK: Final = (
    "Were the offsets reset on purpose, or by a deployment? Then this is expected.",
    "Otherwise look for two services that use the same group id.",
    "Its effects are not safe to repeat? Stop the group before it goes on.",
)
NEVER_COMMITS: Final = (
    "Does the consumer commit? With enable.auto.commit=false it must call commit itself.",
    "Read its log for commits that Kafka refused, and for what ends it again and again.",
    "Are its offsets kept elsewhere on purpose? Report its progress, or use group_deny.",
)
TRANSACTION: Final = (
    "Find the producer that began the transaction: it hangs, or it never ended it.",
    (
        "It is gone? Kafka ends the transaction after transaction.timeout.ms; "
        "kafka-transactions.sh find-hanging and abort end one that stays."
    ),
)
LOST: Final = (
    "Find out whether what was deleted can be produced or loaded again.",
    "Lengthen the topic's retention: it is shorter than the group may be behind.",
    (
        "Done? `lagwatch loss acknowledge GROUP`, or the button on the group's page, ends it; "
        "else it is shown for an hour (evaluator.loss_shown_s)."
    ),
)
BEYOND_END: Final = (
    (
        "Was the topic made anew, or did its leader lose messages? Reset the group's offsets: "
        "new messages below them are not read."
    ),
)
_STOPPED: Final = (
    "Is the service of the group down? Start it.",
    "It runs? Take a thread dump of it, and look at its subscription.",
    RETIRED,
)
_STOPPED_WITH_MEMBERS: Final = (THREAD_DUMP, READ_ITS_LOG)
_STOPPED_JOB: Final = ("Look at the job itself: is it down, or does it hang?",)
_OWN_ASSIGNMENT: Final = (
    "Look at the consumer that assigns partitions itself: it does not read this one.",
)
_OF_RULES: Final[Mapping[Rule, Steps]] = {
    Rule.NEVER_COMMITS: NEVER_COMMITS,
    Rule.HELD_BY_TRANSACTION: TRANSACTION,
    Rule.RECORDS_LOST: LOST,
    Rule.AHEAD_OF_LOG_END: BEYOND_END,
}
_OF_STATUS: Final[Mapping[PartitionStatus, Steps]] = {
    PartitionStatus.OK: (),
    PartitionStatus.UNKNOWN: (),
    PartitionStatus.STALL: STALLED,
    PartitionStatus.WARN: SLOW,
    PartitionStatus.REWIND: WENT_BACK,
    PartitionStatus.ERR: (),  # see its rules
}


def without_cause(case: Case, worst: PartitionVerdict) -> Steps:
    """First steps where no cause was found: by the rule, and by what is known of the members."""
    if worst.rule in _OF_RULES:
        return _OF_RULES[worst.rule]
    if worst.status is PartitionStatus.STALL and case.empty:
        return STALLED_WITHOUT_MEMBERS
    if worst.status is not PartitionStatus.STOP:
        return _OF_STATUS[worst.status]
    if case.kept_elsewhere:
        return _STOPPED_JOB
    if not case.members_known:
        return _STOPPED
    return _OWN_ASSIGNMENT if case.empty else _STOPPED_WITH_MEMBERS


def with_loss(steps: Steps, case: Case) -> Steps:
    """These steps, and those about messages that were lost beside the trouble they are for."""
    lost = any(each.lost_unacknowledged for each in case.verdict.partitions)
    return (*steps, *LOST) if lost and not {*LOST} & {*steps} else steps
