"""Our own errors, in OpenAI's shape with a stable `code`. docs/errors.md lists each with what the caller should do."""

import msgspec

from workers.scheduling.interface import Reject


class GatewayError(Exception):
    """Becomes the answer to the request it is raised for."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: int | None = None,
        allow: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        self.allow = allow

    def body(self) -> bytes:
        kind = "invalid_request_error" if self.status < 500 else "server_error"  # noqa: PLR2004 - HTTP
        if self.status == 429:  # noqa: PLR2004 - HTTP
            kind = "rate_limit_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})

    def headers(self) -> list[tuple[bytes, bytes]]:
        headers = [(b"content-type", b"application/json")]
        if self.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after_s))
        if self.allow:
            headers.append((b"allow", self.allow.encode()))
        if self.status == 401:  # noqa: PLR2004 - HTTP
            headers.append((b"www-authenticate", b"Bearer"))
        return headers

    def stream_event(self) -> bytes:
        """What ends a stream that has begun: an in-band error and the end mark, as vLLM does it."""
        return b"data: " + self.body() + b"\n\ndata: [DONE]\n\n"


def bad_request(code: str, message: str, param: str | None = None) -> GatewayError:
    return GatewayError(400, code, message, param=param)


def bad_header(name: str, wanted: str) -> GatewayError:
    return bad_request("invalid_header", f"The header {name} must be {wanted}.", name)


def workflow_deadline() -> GatewayError:
    """A 400, because SDKs send what is refused with 429 again, and no later call of the workflow can be in time."""
    return bad_request("workflow_deadline", "The workflow of this call is past its deadline.", "x-workflow-deadline-ms")


def workflow_budget() -> GatewayError:
    return bad_request("workflow_budget", "The workflow of this call has used up its budget.", "x-workflow-id")


def workflow_ended(reason: str) -> GatewayError:
    """The same, of a call that waited or ran."""
    return workflow_budget() if reason == "workflow_budget" else workflow_deadline()


def key_missing() -> GatewayError:
    return GatewayError(
        401,
        "missing_api_key",
        "No API key was given. Send it as 'Authorization: Bearer <key>'; your tenant page has it.",
    )


def key_invalid() -> GatewayError:
    return GatewayError(401, "invalid_api_key", "Incorrect API key: it is unknown, revoked or expired.")


def path_not_in_scope(path: str) -> GatewayError:
    return GatewayError(
        403, "path_not_allowed", f"This key may not ask for {path[:200]}; its tenant's key page says why."
    )


def address_not_in_scope() -> GatewayError:
    return GatewayError(403, "address_not_allowed", "This key may not be used from your address.")


def model_not_found(model: str) -> GatewayError:
    shown = model if len(model) <= 100 else model[:100] + "…"  # noqa: PLR2004 - enough to recognise it
    return GatewayError(
        404, "model_not_found", f"The model `{shown}` does not exist or your key may not use it.", param="model"
    )


def wrong_task(model: str, task: str) -> GatewayError:
    does = "embeds and does not generate" if task == "embed" else "generates and does not embed, pool or score"
    return bad_request("wrong_task", f"The model `{model}` {does}; it has no such path.", "model")


def path_unknown(path: str) -> GatewayError:
    return GatewayError(404, "unknown_url", f"There is nothing at {path[:200]}.")


def method_not_allowed(allow: str) -> GatewayError:
    return GatewayError(405, "method_not_allowed", f"Use {allow} here.", allow=allow)


def not_ready(reason: str) -> GatewayError:
    return GatewayError(503, "gateway_not_ready", f"This gateway cannot serve yet: {reason}", retry_after_s=2)


def shutting_down() -> GatewayError:
    return GatewayError(503, "shutting_down", "This gateway is stopping; send the request again.", retry_after_s=1)


def node_removed() -> GatewayError:
    return GatewayError(503, "node_removed", "This node was removed from its fleet; ask another gateway.")


def owner_unavailable() -> GatewayError:
    message = "The process of this gateway that serves this model is not there now; send the request again."
    return GatewayError(503, "owner_unavailable", message, retry_after_s=1)


def spool_unavailable() -> GatewayError:
    return GatewayError(
        503, "spool_unavailable", "Usage cannot be recorded now, so nothing is served.", retry_after_s=5
    )


# A refusal by it leaves no record: there is nowhere to write one.
SPOOL_UNAVAILABLE = spool_unavailable().code


def internal() -> GatewayError:
    return GatewayError(500, "internal_error", "The gateway failed on this request; it has been logged.")


def queue_full(retry_after_s: int | None) -> GatewayError:
    return GatewayError(
        429, "queue_full", "Too many of your requests are waiting. Send fewer at once.", retry_after_s=retry_after_s
    )


def too_many_connections() -> GatewayError:
    return GatewayError(
        429,
        "too_many_connections",
        "Too many connections are open with this key. Use fewer, and keep them.",
        retry_after_s=1,
    )


def cannot_meet_deadline(retry_after_s: int | None) -> GatewayError:
    return GatewayError(
        429,
        "deadline",
        "More is asked for than can be answered in time. Try again later.",
        retry_after_s=retry_after_s,
    )


def deadline_passed() -> GatewayError:
    return GatewayError(
        429,
        "deadline",
        "No engine could answer this by its deadline any more. Ask with a later one, or for a shorter answer.",
    )


def no_endpoint(retry_after_s: int | None) -> GatewayError:
    return GatewayError(
        503, "no_endpoint", "No engine is up for this model now; one may be starting.", retry_after_s=retry_after_s
    )


def misdirected() -> GatewayError:
    """Between gateways: a client gets what the next node says."""
    return GatewayError(421, "misdirected", "This node cannot answer what another gateway asks for.")


def engine_unavailable() -> GatewayError:
    return GatewayError(502, "engine_unavailable", "The engine failed before it answered; send the request again.")


def engine_died() -> GatewayError:
    return GatewayError(502, "engine_died", "The engine failed in the middle of its answer; send the request again.")


def engine_timed_out() -> GatewayError:
    return GatewayError(504, "engine_timed_out", "The engine made no progress for too long; send the request again.")


def of_reject(reject: Reject) -> GatewayError:
    """What the scheduler's refusal is to a client."""
    code, retry_after_s = reject.code, reject.retry_after_s
    if reject.reason in ("workflow_deadline", "workflow_budget"):
        return workflow_ended(reject.reason)
    if reject.reason == "deadline_passed":
        return deadline_passed()
    if code == "queue_full":
        return queue_full(retry_after_s)
    if code == "no_endpoint":
        return no_endpoint(retry_after_s)
    if code == "cannot_meet_deadline":
        return cannot_meet_deadline(retry_after_s)
    return engine_unavailable()
