"""Objects that are created only where there is none, in one step of the object store.

Arrow, which reads and writes all other files, has no conditional requests. The stores do:
`If-None-Match: *` in S3 and Azure, `ifGenerationMatch=0` in Google Cloud Storage.
"""

from typing import Any
from urllib.parse import parse_qs, urlsplit

from lagwatch.config.secret import ShownUrl


def created(where: str, path: str, data: bytes) -> bool:
    """Create an object below a URL; False: there is one already.

    Raises:
        ImportError: the package for it is not installed.
        OSError: the store refused or did not answer.
    """
    import obstore  # noqa: PLC0415 optional: only jobs on object stores need it
    from obstore.exceptions import AlreadyExistsError, BaseError  # noqa: PLC0415

    try:
        obstore.put(_store(where), path, data, mode="create", use_multipart=False)
    except AlreadyExistsError:
        return False
    except BaseError as error:
        raise OSError(str(error).replace(where, ShownUrl.shown(where))) from error
    return True


def _store(where: str) -> Any:  # noqa: ANN401 one of obstore's classes
    """The same place as Arrow opens; keys come from the environment or the machine's role."""
    from obstore.store import S3Store, from_url  # noqa: PLC0415 optional

    url = urlsplit(where)
    options = {name: values[-1] for name, values in parse_qs(url.query).items()}
    if url.scheme != "s3":
        return from_url(where.partition("?")[0])
    scheme = options.get("scheme", "https")
    chosen: dict[str, Any] = {"client_options": {"allow_http": scheme == "http"}}
    if endpoint := options.get("endpoint_override"):
        chosen["endpoint"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    if region := options.get("region"):
        chosen["region"] = region
    if url.username:
        chosen |= {"access_key_id": url.username, "secret_access_key": url.password}
    bucket = url.hostname or ""
    return S3Store(bucket, prefix=url.path.strip("/") or None, **chosen)
