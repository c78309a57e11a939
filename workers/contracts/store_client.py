"""Reads an object store with the credentials of the process that reads."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import obstore
from msgspec import Struct
from obstore.exceptions import BaseError, NotFoundError, PreconditionError
from obstore.store import S3Store

from workers.contracts.store_credentials import NoCredentialsError, find_credentials
from workers.contracts.stores import ANONYMOUS, ObjectSource, StoreAddress, StoredObject, objects_of

MOST_OBJECTS = 10_000
_DEFAULT_REGION = "us-east-1"
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_DENIED = {"401", "403"}


class StoreError(Exception):
    """The message is for people."""


class StoreAwayError(StoreError):
    """It does not answer, or broke off: trying again may help."""


class StoreRefusedError(StoreError):
    """It does not let us read: credentials are missing, wrong, or not enough."""


class NotInStoreError(StoreError):
    """No such bucket, or nothing under that key or prefix."""


class ObjectChangedError(StoreError):
    """It is another one than was listed."""


class Patience(Struct, frozen=True, kw_only=True):
    """How long one answer may take, and how long a failing store is asked again."""

    connect_s: float = 5.0
    answer_s: float = 60.0
    retries: int = 2
    retry_s: float = 30.0


class ObjectStore:
    """One bucket. What it raises is a StoreError; no message holds a credential."""

    def __init__(
        self, store: StoreAddress, bucket: str, environ: Mapping[str, str], patience: Patience | None = None
    ) -> None:
        """Raises StoreRefusedError where there are no credentials."""
        self._bucket = bucket
        try:
            credentials = find_credentials(store, environ)
        except NoCredentialsError as error:
            raise StoreRefusedError(str(error)) from error
        with _translated(f"s3://{bucket}"):
            self._client = _open(store, bucket, environ, credentials, patience or Patience())

    def list_objects(self, source: ObjectSource) -> list[StoredObject]:
        """Below the prefix, or the one object of that key. Raises NotInStoreError where there are none."""
        with _translated(str(source)):
            objects = objects_of(source, self._below(source.prefix)) or objects_of(source, self._at(source.prefix))
        if not objects:
            raise NotInStoreError(f"there is nothing under {source}")
        return objects

    def read(self, each: StoredObject, begin: int, end: int) -> bytes:
        """Raises ObjectChangedError when it is not the one that was listed any more."""
        if begin >= end:
            return b""
        options: Any = {"range": (begin, end), "if_match": f'"{each.etag}"'}
        with _translated(f"s3://{self._bucket}/{each.key}"):
            content = bytes(obstore.get(self._client, each.key, options=options).bytes())
        if len(content) != end - begin:
            raise StoreAwayError(
                f"s3://{self._bucket}/{each.key} broke off, {end - begin - len(content)} bytes too early"
            )
        return content

    def _below(self, prefix: str) -> Iterator[tuple[str, int, str]]:
        count = 0
        for page in obstore.list(self._client, prefix, chunk_size=1000):
            count += len(page)
            if count > MOST_OBJECTS:
                raise StoreError(f"more than {MOST_OBJECTS} objects are no model's: give a longer prefix")
            yield from (_listed(meta) for meta in page)

    def _at(self, key: str) -> list[tuple[str, int, str]]:
        try:
            return [_listed(obstore.head(self._client, key))]
        except (NotFoundError, FileNotFoundError):
            return []


def _listed(meta: Any) -> tuple[str, int, str]:
    return meta["path"], meta["size"], meta["e_tag"] or ""


def _open(
    store: StoreAddress, bucket: str, environ: Mapping[str, str], credentials: dict[str, str], patience: Patience
) -> S3Store:
    options: dict[str, Any] = credentials | {
        "skip_signature": store.credentials == ANONYMOUS,
        "region": store.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or _DEFAULT_REGION,
        "virtual_hosted_style_request": not store.is_path_style,
    }
    endpoint = store.endpoint or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    if endpoint:
        options["endpoint"] = endpoint if store.is_path_style else endpoint.replace("://", f"://{bucket}.", 1)
    return S3Store(
        bucket,
        **options,
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=patience.connect_s),
            "timeout": timedelta(seconds=patience.answer_s),
        },
        retry_config={"max_retries": patience.retries, "retry_timeout": timedelta(seconds=patience.retry_s)},
    )


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """The client's own words are long, and hold the addresses that it asked."""
    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        raise NotInStoreError(f"{what} is not there") from error
    except PreconditionError as error:
        raise ObjectChangedError(f"{what} has been changed in its bucket meanwhile") from error
    except (BaseError, PermissionError) as error:
        raise _error_of(what, str(error)) from error


def _error_of(what: str, told: str) -> StoreError:
    code, status = _first(_CODE.search(told)), _first(_STATUS.search(told))
    reason = code or (f"status {status}" if status else "")
    if status in _DENIED:
        return StoreRefusedError(f"the store does not let us read {what}: {reason}")
    if code == "NoSuchBucket":
        return NotInStoreError(f"the store has no bucket for {what}")
    if "Error parsing Path" in told:
        return StoreError(f"{what} holds an object whose key is no path (an empty part, or dots)")
    return StoreAwayError(f"{what} cannot be read: {reason or 'the store cannot be reached'}")


def _first(found: re.Match[str] | None) -> str:
    return found[1] if found else ""
