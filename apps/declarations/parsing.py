from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from apps.common.parsing import TooBigError, refuse_nul
from apps.declarations.policies.documents import DocumentError, read_yaml

BIGGEST_YAML_BYTES = 2**20


class YAMLParser(BaseParser):
    """Every document of a stream, as a list."""

    media_type = "application/yaml"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,  # noqa: ARG002 - DRF's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:
        body = stream.read(BIGGEST_YAML_BYTES + 1)
        if len(body) > BIGGEST_YAML_BYTES:
            raise TooBigError(f"YAML has at most {BIGGEST_YAML_BYTES} bytes")
        try:
            content = read_yaml(body.decode())
        except (DocumentError, UnicodeDecodeError) as error:
            raise ParseError(f"not YAML: {error}") from error
        refuse_nul(content)
        return content


class XYAMLParser(YAMLParser):
    media_type = "application/x-yaml"


class TextYAMLParser(YAMLParser):
    media_type = "text/yaml"
