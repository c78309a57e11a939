from uuid import UUID

from django.db.models import QuerySet

from apps.common.credentials import sha256_of
from apps.common.errors import NotFoundError
from apps.fleet.models import Accelerator, JoinToken, Node, RemovedNode


def list_nodes() -> QuerySet[Node]:
    return Node.objects.prefetch_related("accelerators")


def list_gateway_urls() -> list[tuple[UUID, str]]:
    """(node, address) of the nodes whose gateways have told where they answer."""
    return list(Node.objects.exclude(gateway_url="").order_by("id").values_list("id", "gateway_url"))


def get_node(node_id: UUID) -> Node:
    node = list_nodes().filter(pk=node_id).first()
    if node is None:
        raise NotFoundError("no such node")
    return node


def get_accelerator(accelerator_id: UUID) -> Accelerator:
    found = Accelerator.objects.select_related("node").filter(pk=accelerator_id).first()
    if found is None:
        raise NotFoundError("no such accelerator")
    return found


def find_node_by_token(text: str) -> Node | None:
    return Node.objects.filter(token_sha256=sha256_of(text)).first()


def was_removed(text: str) -> bool:
    """Whether it is the token of a node that was part of the fleet once."""
    return RemovedNode.objects.filter(token_sha256=sha256_of(text)).exists()


def name_nodes(ids: set[UUID]) -> dict[UUID, str]:
    return dict(Node.objects.filter(pk__in=ids).values_list("pk", "name"))


def list_join_tokens() -> QuerySet[JoinToken]:
    return JoinToken.objects.all()


def get_join_token(token_id: UUID) -> JoinToken:
    token = list_join_tokens().filter(pk=token_id).first()
    if token is None:
        raise NotFoundError("no such join token")
    return token


def list_known_nodes(ids: list[UUID]) -> set[UUID]:
    """Those of them that are still part of the fleet."""
    return set(Node.objects.filter(pk__in=ids).values_list("pk", flat=True))
