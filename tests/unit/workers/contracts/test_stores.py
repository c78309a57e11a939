import pytest

from workers.contracts.stores import (
    BY_ENVIRONMENT,
    SourceError,
    StoreAddress,
    StoreSettingsError,
    digest_of,
    objects_of,
    parse_source,
    read_stores,
    store_of_bucket,
    weight_bytes_of,
)

pytestmark = pytest.mark.unit

TWO = """
[minio]
buckets = ["models", "team-*"]
endpoint = "https://minio.internal:9000"
credentials = "minio"

[public]
region = "eu-central-1"
credentials = "anonymous"
"""


def names(source, *listed):
    return [each.name for each in objects_of(parse_source(source), listed)]


def test_a_store_is_a_table_and_the_first_that_has_the_bucket_is_asked():
    minio, public = read_stores(TWO)
    assert (minio.name, minio.endpoint, minio.credentials) == ("minio", "https://minio.internal:9000", "minio")
    assert store_of_bucket([minio, public], "team-a") is minio
    assert store_of_bucket([minio, public], "models-2") is public


def test_a_bucket_of_no_store_has_none_and_without_any_the_environment_says():
    assert store_of_bucket(read_stores(TWO)[:1], "other") is None
    assert store_of_bucket([], "other") is BY_ENVIRONMENT


@pytest.mark.parametrize(
    "text",
    [
        "[a",
        "a = 1",
        '[a]\nendpoint = "minio:9000"',
        '[a]\nendpoint = "ftp://minio"',
        '[a]\nendpoint = "https://key:secret@minio"',
        '[a]\nendpoint = "https://minio?x=1"',
        '[a]\nsecret = "x"',
        "[a]\nbuckets = 3",
    ],
)
def test_settings_that_make_no_sense_are_refused_and_name_the_store(text):
    with pytest.raises(StoreSettingsError):
        read_stores(text)


@pytest.mark.parametrize("source", ["org/name", "/models/llama", "smollm2-135m-instruct", "llama3-8b/h100/tp1"])
def test_what_is_no_store_s_is_left_to_others(source):
    assert parse_source(source) is None


def test_a_source_is_spelt_in_one_way():
    assert str(parse_source("s3://models/a/b/")) == "s3://models/a/b"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("s3://models", "whole bucket"),
        ("s3:///llama", "BUCKET/PREFIX"),
        ("s3://models/a//b", "empty part"),
        ("s3://models/../b", "dots only"),
        ("gs://models/a", "storage.googleapis.com"),
        ("az://models/a", "no S3 interface"),
        ("r2://models/a", "endpoint is the S3 one"),
        ("https://minio/models/a", "installation's stores"),
    ],
)
def test_a_source_that_nobody_can_read_says_what_would_be_one(source, says):
    with pytest.raises(SourceError, match=says):
        parse_source(source)


def test_a_prefix_is_a_whole_part_of_keys():
    assert names("s3://bkt/llama", ("llama/x", 1, "e"), ("llama-2/x", 1, "e"), ("llama", 0, "e")) == ["x"]


def test_one_form_of_the_weights_and_no_marks_of_directories():
    listed = [("m/a.safetensors", 5, "1"), ("m/a.bin", 5, "2"), ("m/sub", 0, "3"), ("m/sub/t.json", 1, "4")]
    assert names("s3://bkt/m", *listed) == ["a.safetensors", "sub/t.json"]
    assert names("s3://bkt/m", ("m/a.gguf", 5, "1")) == ["a.gguf"]


def test_an_object_is_named_by_its_last_part():
    assert names("s3://bkt/m/x.gguf", ("m/x.gguf", 5, "1")) == ["x.gguf"]


def test_the_digest_is_of_names_sizes_and_etags_in_whatever_order_they_are_listed():
    source, listed = parse_source("s3://bkt/m"), [("m/a", 1, '"e"'), ("m/b", 2, "f")]
    digest = digest_of(objects_of(source, listed))
    assert digest == digest_of(objects_of(parse_source("s3://other/n"), [("n/b", 2, '"f"'), ("n/a", 1, "e")]))
    for changed in (("m/a", 1, "g"), ("m/a", 3, "e"), ("m/c", 1, "e")):
        assert digest_of(objects_of(source, [changed, listed[1]])) != digest


def test_weights_are_files_of_weights():
    source = parse_source("s3://bkt/m")
    assert weight_bytes_of(objects_of(source, [("m/a.safetensors", 5, ""), ("m/config.json", 9, "")])) == 5
    assert weight_bytes_of(objects_of(source, [("m/config.json", 9, "")])) is None


def test_an_address_holds_nothing_that_may_not_be_seen():
    assert set(StoreAddress.__struct_fields__) == {
        "name", "buckets", "endpoint", "region", "credentials", "is_path_style",
    }  # fmt: skip
