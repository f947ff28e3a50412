"""A chat's incoming webhook: one JSON document a message, whose shape is the chat's own."""

import json
from collections.abc import Callable
from typing import Any

from lagwatch.config.alerts_channels import SlackSettings, TeamsSettings
from lagwatch.notify.bulletin import Bulletin
from lagwatch.notify.channels.http import HttpSender, answer
from lagwatch.notify.notice import Message
from lagwatch.notify.packing import Packing


class ChatWebhook:
    """A `Channel`; `payload` makes the document of a message, `bulletin` that of a bulletin."""

    def __init__(
        self,
        name: str,
        settings: SlackSettings | TeamsSettings,
        payload: Callable[[Message], dict[str, Any]],
        bulletin: Callable[[Bulletin], dict[str, Any]],
        packing: Packing,
    ) -> None:
        self.packing = packing
        self._url = settings.webhook_url.get_secret_value() if settings.webhook_url else ""
        self._http = HttpSender(name, settings)
        self._payload = payload
        self._bulletin = bulletin

    async def send(self, message: Message) -> str:
        return await self._post(message.id, self._payload(message))

    async def send_bulletin(self, bulletin: Bulletin) -> str:
        return await self._post(bulletin.id, self._bulletin(bulletin))

    async def _post(self, key: str, document: dict[str, Any]) -> str:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        body = json.dumps(document, ensure_ascii=False).encode()
        return answer(await self._http.send("POST", self._url, body=body, headers=headers))

    async def close(self) -> None:
        await self._http.close()
