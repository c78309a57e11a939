"""Object stores: where their buckets are, what a model's weights in one are, and what tells two contents apart.

A store's address holds no secret, and may travel: whoever reads brings credentials of its own (store_client.py).
"""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

_SCHEME = "s3://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OTHER_STORES = frozenset({"gs", "gcs", "az", "abfs", "abfss", "azure", "r2", "oci", "oss", "cos", "http", "https"})
# The same weights in other clothes.
OTHER_FORMATS = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".gguf")

ANONYMOUS, INSTANCE = "anonymous", "instance"


class StoreSettingsError(ValueError):
    """The message says which store, and what it should be."""


class SourceError(ValueError):
    """What is written is no source of weights; the message says what would be."""


class StoreAddress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`buckets` are patterns of names. Without an `endpoint` it is AWS, or what AWS_ENDPOINT_URL says.

    `credentials`: "" those of the reader's environment, "anonymous" none, "instance" those of the machine's role; else
    a profile in the reader's credentials file. `is_path_style`: the bucket stands in the path, not in the host's name.
    """

    name: str = ""
    buckets: tuple[str, ...] = ("*",)
    endpoint: str = ""
    region: str = ""
    credentials: str = ""
    is_path_style: bool = True


class ObjectSource(Struct, frozen=True, kw_only=True):
    """`prefix` is a directory's, or the key of one object; without slashes at its ends."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.prefix}"


class StoredObject(Struct, frozen=True, kw_only=True):
    """`name` is its key below the prefix; `etag` without quotes."""

    key: str
    name: str
    size: int
    etag: str


# Where nothing is set up: each reader's own environment says where s3:// is, and who asks.
BY_ENVIRONMENT = StoreAddress()


def read_stores(text: str) -> list[StoreAddress]:
    """A table of TOML for each store. Raises StoreSettingsError."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StoreSettingsError(f"that is no TOML: {error}") from error
    return [_store_of(name, table) for name, table in tables.items()]


def _store_of(name: str, table: object) -> StoreAddress:
    try:
        store = msgspec.convert({"name": name} | dict(table if isinstance(table, dict) else {}), StoreAddress)
    except msgspec.ValidationError as error:
        raise StoreSettingsError(f"store {name}: {error}") from error
    if not isinstance(table, dict):
        raise StoreSettingsError(f"store {name} should be a table: [{name}]")
    if store.endpoint and not _is_plain_url(store.endpoint):
        raise StoreSettingsError(f"store {name}: endpoint should be http:// or https://, a host, and no more")
    return store


def _is_plain_url(endpoint: str) -> bool:
    """What else an address may hold would be a secret, or changes who is asked."""
    parts = urlsplit(endpoint)
    has_more = "@" in parts.netloc or parts.query or parts.fragment
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not has_more


def store_of_bucket(stores: Sequence[StoreAddress], bucket: str) -> StoreAddress | None:
    """The first whose patterns match; BY_ENVIRONMENT where none is set up at all."""
    if not stores:
        return BY_ENVIRONMENT
    return next((each for each in stores if any(fnmatchcase(bucket, pattern) for pattern in each.buckets)), None)


def parse_source(source: str) -> ObjectSource | None:
    """None for what is no object store's: a path, a repository. Raises SourceError."""
    scheme, separator, _ = source.partition("://")
    if separator and scheme.lower() in _OTHER_STORES:
        raise SourceError(_instead_of(scheme.lower()))
    if not source.startswith(_SCHEME):
        return None
    bucket, _, prefix = source.removeprefix(_SCHEME).partition("/")
    prefix = prefix.strip("/")
    if not _BUCKET.fullmatch(bucket):
        raise SourceError("an object store's source is s3://BUCKET/PREFIX, with a bucket's name in small letters")
    if not prefix:
        raise SourceError("a whole bucket is no model: s3://BUCKET/PREFIX")
    if any(part in ("", ".", "..") for part in prefix.split("/")):
        raise SourceError("the prefix has an empty part, or one of dots only")
    return ObjectSource(bucket=bucket, prefix=prefix)


def _instead_of(scheme: str) -> str:
    if scheme in ("gs", "gcs"):
        return "say s3://BUCKET/PREFIX, with a store whose endpoint is https://storage.googleapis.com (HMAC keys)"
    if scheme in ("r2", "oci", "oss", "cos"):
        return f"say s3://BUCKET/PREFIX, with a store whose endpoint is the S3 one of {scheme}"
    if scheme in ("http", "https"):
        return "say s3://BUCKET/PREFIX; where its bucket is, the installation's stores say"
    return f"{scheme}:// has no S3 interface: give the path under which nodes have it mounted, or a copy in S3"


def is_digest(revision: str) -> bool:
    return _DIGEST.fullmatch(revision) is not None


def objects_of(source: ObjectSource, listed: Iterable[tuple[str, int, str]]) -> list[StoredObject]:
    """`listed` are keys, sizes and ETags: of the one object of that key, or of what is below the prefix.

    One form of the weights, in the order of their names.
    """
    listed = list(listed)
    below = [each for each in listed if each[0].startswith(f"{source.prefix}/")]
    found = [_object_of(source, *each) for each in below or listed if below or each[0] == source.prefix]
    directories = {str(parent) for each in found for parent in PurePosixPath(each.name).parents}
    # Consoles of stores make empty objects that stand for directories.
    files = [each for each in found if each.size or each.name not in directories]
    has_safetensors = any(each.name.endswith(".safetensors") for each in files)
    chosen = [each for each in files if not (has_safetensors and each.name.endswith(OTHER_FORMATS))]
    return sorted(chosen, key=lambda each: each.name)


def _object_of(source: ObjectSource, key: str, size: int, etag: str) -> StoredObject:
    name = key.removeprefix(source.prefix).strip("/") or key.rpartition("/")[2]
    return StoredObject(key=key, name=name, size=size, etag=etag.strip('"'))


def digest_of(objects: Iterable[StoredObject]) -> str:
    """Of names, sizes and ETags: another one means other weights."""
    content = sorted((each.name, each.size, each.etag) for each in objects)
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def weight_bytes_of(objects: Iterable[StoredObject]) -> int | None:
    """Of the files of weights; None where there are none."""
    sizes = [each.size for each in objects if each.name.endswith((".safetensors", *OTHER_FORMATS))]
    return sum(sizes) or None
