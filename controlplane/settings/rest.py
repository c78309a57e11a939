"""How the REST API behaves and describes itself."""

FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.tenants.authentication.BearerTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["apps.rest.conventions.rates.ByWhoAsks"],
    "DEFAULT_PARSER_CLASSES": ["apps.common.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "apps.rest.conventions.schema.ConventionalSchema",
    "EXCEPTION_HANDLER": "apps.common.problems.render_problem",
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
_DESCRIPTION = """
Of every address:
- Errors are `application/problem+json`.
- `?dry_run=1` on a write says what it would do, and does not do it.
- A thing has an `ETag`. A write with `If-Match` is refused (412) when what people set of it has changed since;
  `If-None-Match` answers 304.
- The same write with the same `Idempotency-Key` within 24 hours is done once.
- `?watch=1` on a list of things with an id streams `text/event-stream`: ADDED, MODIFIED, DELETED, from the
  `Resource-Version` of a list (`&resource_version=`) or the id of an event (`Last-Event-ID`) on.
- 429 says in `Retry-After` when to come back.
"""
SPECTACULAR = {
    "TITLE": "Tokenyard",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,  # what a change must name, it must name by PATCH, too
    "DESCRIPTION": _DESCRIPTION,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "controlplane.openapi.document_conventions",
    ],
    "ENUM_NAME_OVERRIDES": {
        "LimitKindEnum": "apps.limits.models.Kind",
        "NodeStateEnum": "apps.fleet.models.NodeState",
        "ReplicaStateEnum": "apps.deployments.models.ReplicaState",
    },
}
