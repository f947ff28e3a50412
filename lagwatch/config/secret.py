"""Texts and tables that hold secrets; each type decides what may be printed of its value.

`repr`, `str`, serialisation, `config show` and faults all use `shown`. The value itself is only in
`get_secret_value()`, in the items of a table, and in what is serialised with `REVEAL`.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, SecretStr
from pydantic_core import CoreSchema
from pydantic_core.core_schema import (
    SerializationInfo,
    dict_schema,
    is_instance_schema,
    json_or_python_schema,
    no_info_after_validator_function,
    no_info_before_validator_function,
    plain_serializer_function_ser_schema,
    str_schema,
    union_schema,
)

HIDDEN: Final = "***"
_CUT: Final = "…"
"""Written in place of a part that is left out of a URL."""
REVEAL: Final = "reveal_secrets"
"""Key of the serialisation context under which secrets are written in clear."""

_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<host>[^/?#;\\]*)(?P<rest>.*)", re.DOTALL
)
_APART: Final = re.compile(r"[/?&=#\s\"',:{}]")
_LONG: Final = 12
"""Characters; shorter parts of a path, and those without a digit, are names more often."""
_PLACEHOLDER: Final = re.compile(r"\{[{%].*?[}%]\}", re.DOTALL)
_USER: Final = re.compile(r"[^\s\"',]+:[^\s\"',]*@")
SECRET_NAME: Final = re.compile(
    r"pass(word|wd|phrase)|(?<![a-z])(pass|pw)(?![a-z])|pwd|secret|token|key"
    r"|auth(orization)?(?![a-z])|user\.info|cookie|credential|jaas|private"
    r"|signature|assertion|\bsas\b|oauthbearer\.(config|extensions)"
)
_NAMED: Final = re.compile(r"""([\w.-]+)["']?\s*[:=]\s*["']?([^\s"'&,}]+)""")
"""Names with their values in JSON, a form or YAML."""
_PUBLIC_NAME: Final = re.compile(r"\.(location|url|type|method|ms|enabled?)$")
"""Names of properties that only seem secret: `ssl.key.location`."""
_PUBLIC_HEADERS: Final = frozenset({"accept", "content-type", "user-agent"})


def looks_secret(name: str) -> bool:
    """True if a property of this name may hold a secret."""
    word = name.lower()
    return SECRET_NAME.search(word) is not None and _PUBLIC_NAME.search(word) is None


def without_user(text: str) -> str:
    """The text with every `user:password@` cut out."""
    return _USER.sub(f"{_CUT}@", text)


class Secret(SecretStr):
    """Text that is never printed."""

    form: ClassVar[str] = "password"
    """Format in the JSON schema."""

    @classmethod
    def shown(cls, text: str) -> str:
        """What may be printed of a value, also of one that is not valid."""
        return HIDDEN if text else ""

    def hidden_parts(self) -> tuple[str, ...]:
        """The parts of the value that `shown` leaves out; they must not be in a log."""
        whole = self.get_secret_value()
        return (whole, *_url_parts(whole))

    def _display(self) -> str:
        return self.shown(self.get_secret_value())

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        made = no_info_after_validator_function(cls, str_schema())
        return json_or_python_schema(
            json_schema=made,
            # an instance passes as it is; the error of anything else is that of a text
            python_schema=union_schema(
                [is_instance_schema(cls), made], custom_error_type="string_type"
            ),
            serialization=plain_serializer_function_ser_schema(_serialized, info_arg=True),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", **({"format": cls.form} if cls.form else {})}


class Template(Secret):
    """Text of a request: it may hold the key of the receiver."""

    form = ""

    def hidden_parts(self) -> tuple[str, ...]:
        text = self.get_secret_value()
        values = (value for name, value in _NAMED.findall(text) if looks_secret(name))
        return (*super().hidden_parts(), *values, *_long_parts(_PLACEHOLDER.split(text)))


class Url(Secret):
    """A URL of which scheme and host are shown: `https://hooks.example.com/…`."""

    form = "url"

    @classmethod
    def shown(cls, text: str) -> str:
        if not text:
            return ""
        parts = _URL.fullmatch(text)
        if parts is None:
            return HIDDEN
        scheme, host, rest = parts["scheme"], parts["host"], parts["rest"]
        user, at, server = host.rpartition("@")
        if not at and "@" in rest:  # a `/` in a password would end the host too early
            return f"{scheme}://{_CUT}"
        cut = f"{_CUT}@" if user else ""
        return f"{scheme}://{cut}{server}" + (f"/{_CUT}" if rest.strip("/") else rest)

    def hidden_parts(self) -> tuple[str, ...]:
        return _url_parts(self.get_secret_value()) or super().hidden_parts()


def _url_parts(text: str) -> tuple[str, ...]:
    """What may be secret in a URL; () if the text is none."""
    parts = _URL.fullmatch(text)
    if parts is None:
        return ()
    user = parts["host"].rpartition("@")[0]
    # what a template puts in is not known here
    fixed = _PLACEHOLDER.split(parts["rest"])
    return (*fixed, *_long_parts(fixed), user, user.partition(":")[2])


def _long_parts(fixed: Iterable[str]) -> Iterator[str]:
    """Parts of a path or query that may be keys: a server may quote only the last."""
    for part in (part for text in fixed for part in _APART.split(text)):
        if len(part) >= _LONG and re.search(r"\d", part):
            yield part


class ShownUrl(Url):
    """A folder, a word, or a URL whose path is shown: `s3://…@bucket/path?…`."""

    form = ""

    @classmethod
    def shown(cls, text: str) -> str:
        scheme, colon, rest = text.partition("://")
        if not colon:
            return text
        # the last `@` ends the user: a password that is not encoded may hold any character
        body, mark = _split_query(rest)
        user, at, place = body.rpartition("@")
        return f"{scheme}://" + (f"{_CUT}@" if at and user else "") + place + mark

    def hidden_parts(self) -> tuple[str, ...]:
        rest = self.get_secret_value().partition("://")[2]
        body, mark = _split_query(rest)
        user = body.rpartition("@")[0]
        query = rest[len(body) + 1 :] if mark else ""
        return (query, user, user.partition(":")[2])


def _split_query(rest: str) -> tuple[str, str]:
    """What is before the first of `?`, `#` and `;`, and a mark for what is cut off."""
    found = re.search(r"[?#;]", rest)
    return (rest[: found.start()], found.group() + _CUT) if found else (rest, "")


class Table(Mapping[str, str]):
    """Words for a library, by name; `true` and numbers of the file become text."""

    def __init__(self, values: Mapping[str, str] = {}) -> None:
        self._values = dict(values)

    @classmethod
    @abstractmethod
    def hides(cls, name: str) -> bool:
        """True if the value of this name is never printed."""

    @classmethod
    def shown_value(cls, name: str, value: str) -> str:
        """What may be printed of the value of a name."""
        # `-Dsome.password=x` among the options of a program
        inside = any(looks_secret(word) for word in re.findall(r"(?:-D)?([\w.-]+)(?==)", value))
        return HIDDEN if cls.hides(name) or inside else without_user(ShownUrl.shown(value))

    def shown(self) -> dict[str, str]:
        return {name: self.shown_value(name, value) for name, value in self.items()}

    def hidden_parts(self) -> tuple[str, ...]:
        """The values that are not shown in full."""
        return tuple(
            value for name, value in self.items() if self.shown_value(name, value) != value
        )

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self.shown())

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        words = no_info_before_validator_function(_words, dict_schema(str_schema(), str_schema()))
        return no_info_after_validator_function(
            cls,
            words,
            serialization=plain_serializer_function_ser_schema(_serialized, info_arg=True),
        )


class Properties(Table):
    """Properties handed to a library: those whose name looks secret are hidden."""

    @classmethod
    def hides(cls, name: str) -> bool:
        return looks_secret(name)


class Headers(Table):
    """Headers of HTTP requests: hidden, except a few that never hold a secret."""

    @classmethod
    def hides(cls, name: str) -> bool:
        return name.lower() not in _PUBLIC_HEADERS


def _serialized(value: Secret | Table, info: SerializationInfo) -> str | dict[str, str]:
    revealed = bool((info.context or {}).get(REVEAL))
    if isinstance(value, Table):
        return dict(value) if revealed else value.shown()
    return value.get_secret_value() if revealed else str(value)


def _words(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return {name: _word(setting) for name, setting in value.items()}


def _word(setting: object) -> object:
    match setting:
        case bool():
            return str(setting).lower()
        case int() | float():
            return str(setting)
        case _:
            return setting
