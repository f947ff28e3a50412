"""Messages about many pages, of which PagerDuty accepts the events one by one."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from lagwatch.clock import SystemClock
from lagwatch.core.incident import NoticeEvent
from lagwatch.errors import NotifyError, Refusal
from lagwatch.notify.channels.pagerduty import PagerDuty, PagerDutySettings, events
from lagwatch.notify.notice import About, Message, StillOpen
from lagwatch.notify.sample import sample_messages
from tests.support.receiver import Receiver, Reply, receiving

SUCCESS = Reply(status=202, body='{"status":"success"}')
LIMITED = Reply(status=429, headers={"Retry-After": "77"})
INVALID = Reply(status=400, body='{"status":"invalid event"}')


def about(*pages: int, event: NoticeEvent = NoticeEvent.CLOSE) -> Message:
    """News of the one incident of each page."""
    message = sample_messages()[0]
    notices = tuple(
        replace(
            message.notices[0],
            key=f"{page}.{event.value}.pager",
            group=f"g{page}",
            event=event,
            thread=f"page-{page}",
            thread_open=0 if event is NoticeEvent.CLOSE else 1,
        )
        for page in pages
    )
    return replace(message, notices=notices)


@asynccontextmanager
async def channel(receiver: Receiver) -> AsyncIterator[PagerDuty]:
    settings = PagerDutySettings(routing_key="k", url=receiver.url)
    pager = PagerDuty("pager", settings, SystemClock())
    try:
        yield pager
    finally:
        await pager.close()


async def refused(pager: PagerDuty, message: Message) -> NotifyError:
    with pytest.raises(NotifyError) as caught:
        await pager.send(message)
    return caught.value


def accepted(receiver: Receiver) -> Counter[str]:
    """How often each page was resolved or triggered."""
    taken = [request.json for request in receiver.taken]
    return Counter(f"{event['event_action']} {event['dedup_key']}" for event in taken)


def once(*pages: int, action: str = "resolve") -> Counter[str]:
    return Counter(f"{action} lagwatch-page-{page}" for page in pages)


def test_an_attempt_goes_on_where_a_limit_of_requests_ended_the_one_before() -> None:
    message = about(*range(30))

    async def deliver() -> NotifyError:
        async with channel(receiver) as pager:
            receiver.replies = [SUCCESS] * 12 + [LIMITED] * 30
            error = await refused(pager, message)
            before = len(receiver.requests)
            receiver.replies = [SUCCESS] * 30
            await pager.send(message)
            assert len(receiver.requests) - before == 18
            return error

    with receiving() as receiver:
        error = asyncio.run(deliver())

    assert (error.refusal, error.retry_after_s) == (Refusal.UNAVAILABLE, 77)
    assert accepted(receiver) == once(*range(30))


def test_more_pages_than_fit_into_the_time_of_an_attempt_are_delivered() -> None:
    message = about(*range(24))

    async def deliver() -> int:
        async with channel(receiver) as pager:
            for attempt in range(1, 30):
                try:
                    async with asyncio.timeout(0.5):
                        await pager.send(message)
                except TimeoutError:
                    continue
                return attempt
            raise AssertionError("never delivered")

    with receiving(*[replace(SUCCESS, after_s=0.15)] * 1000) as receiver:
        attempts = asyncio.run(deliver())

    assert attempts > 1
    assert len({request.json["dedup_key"] for request in receiver.requests}) == 24
    # only what was on its way when the time was over is sent again
    assert len(receiver.requests) <= 24 + 4 * (attempts - 1)


def test_an_event_that_is_refused_holds_up_no_other() -> None:
    async def deliver() -> NotifyError:
        async with channel(receiver) as pager:
            error = await refused(pager, about(*range(9)))
            assert len(receiver.taken) == 8
            receiver.replies = [SUCCESS] * 9
            for part in (about(*range(4)), about(*range(4, 9))):
                await pager.send(part)
            return error

    with receiving(INVALID, *[SUCCESS] * 8) as receiver:
        error = asyncio.run(deliver())

    assert error.refusal is Refusal.CONTENT
    assert len(receiver.requests) == 10
    assert accepted(receiver) == once(*range(9))


def test_the_end_of_what_was_triggered_before_is_sent() -> None:
    async def deliver() -> None:
        async with channel(receiver) as pager:
            await refused(pager, about(1, 2, event=NoticeEvent.REMIND))
            receiver.replies = [SUCCESS] * 2
            await pager.send(about(1, 2))

    with receiving(SUCCESS, LIMITED) as receiver:
        asyncio.run(deliver())

    assert accepted(receiver) >= once(1, 2, action="resolve")


def test_what_was_delivered_is_sent_again_on_request() -> None:
    async def deliver() -> None:
        async with channel(receiver) as pager:
            await pager.send(about(1))
            await pager.send(about(1))

    with receiving(*[SUCCESS] * 2) as receiver:
        asyncio.run(deliver())

    assert accepted(receiver) == once(1) + once(1)


def test_the_parts_of_a_message_resolve_their_page_once() -> None:
    """It was split while PagerDuty refused it; a page that is triggered again is resolved again."""
    ends = about(*[1] * 8)
    parts = [
        replace(ends, notices=(replace(notice, key=f"{number}.close.pager"),))
        for number, notice in enumerate(ends.notices)
    ]

    async def deliver() -> None:
        async with channel(receiver) as pager:
            await refused(pager, ends)
            receiver.replies = [SUCCESS] * 20
            for part in parts:
                await pager.send(part)
            assert accepted(receiver) == once(1)
            await pager.send(about(1, event=NoticeEvent.REMIND))
            await pager.send(parts[5])

    with receiving(Reply(status=500)) as receiver:
        asyncio.run(deliver())

    assert accepted(receiver) == once(1) + once(1) + once(1, action="trigger")


def test_an_update_reads_as_severe_as_its_page() -> None:
    message = about(1, event=NoticeEvent.DE_ESCALATE)
    notices = (replace(message.notices[0], severity="warning"),)
    first = StillOpen(about=About.GROUP, incident="ib", cluster="prod", group="b", severity="error")
    left = (
        replace(first, incident="ia", group="a", severity="warning"),
        first,
        replace(first, incident="ic", group="c"),
    )
    update = replace(message, notices=notices, still_open={"page-1": left})

    (event,) = events(update)

    shown = event["payload"]
    assert shown["severity"] == "critical"
    assert shown["summary"].startswith("Still ERROR on this page: b on prod, c on prod; Now only W")
    assert shown["summary"].endswith("; still open on this page: a on prod")
    assert len(shown["custom_details"]["still_open"]) == 3
