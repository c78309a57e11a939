from typing import Any

from rest_framework.exceptions import ParseError

from apps.common.parsing import StrictParser
from apps.declarations.policies.documents import DocumentError, read_yaml

BIGGEST_YAML_BYTES = 2**20


class YAMLParser(StrictParser):
    """Every document of a stream, as a list."""

    media_type = "application/yaml"
    what = "YAML"
    biggest_bytes = BIGGEST_YAML_BYTES

    @staticmethod
    def decode(body: bytes) -> Any:
        try:
            return read_yaml(body.decode())
        except (DocumentError, UnicodeDecodeError) as error:
            raise ParseError(f"not YAML: {error}") from error


class XYAMLParser(YAMLParser):
    media_type = "application/x-yaml"


class TextYAMLParser(YAMLParser):
    media_type = "text/yaml"
