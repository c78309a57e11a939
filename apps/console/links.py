from django.urls import reverse


def page_links() -> dict[str, str]:
    """Where the figures of live pages lead."""
    return {name: reverse(f"console:{name}") for name in ("fleet", "requests", "deployments", "usage")}
