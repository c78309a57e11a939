from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    """By id, which is a UUIDv7 and so sorts by time: pages stay put while rows arrive."""

    ordering: str | tuple[str, ...] = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500


class NewestRecordsFirst(NewestFirst):
    """By arrival, which usage records are stored and indexed by."""

    ordering = ("-arrived_at", "-record_id")
