from hypothesis import given
from hypothesis import strategies as st

from workers.gateway.batches.listing import Mark, Part, merged

TAGS = ("00000000", "77777777", "ffffffff")

made = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=20)


def stored(made_at, *, newest_first):
    """By tag, each node's in the order in which it lists them."""
    by_tag = {tag: [] for tag in TAGS}
    for number, (second, node) in enumerate(sorted(made_at)):
        by_tag[TAGS[node]].append({"id": f"file-{TAGS[node]}{number:04d}", "created_at": second})
    return {tag: files[::-1] if newest_first else files for tag, files in by_tag.items()}


def part_of(tag, files, mark, after, limit, *, newest_first):
    """As a node's store answers."""
    if mark is not None and mark.tag == tag:
        files = files[[one["id"] for one in files].index(after) + 1 :]
    elif mark is not None:
        bound = mark.bound(tag, newest_first=newest_first)
        files = [one for one in files if (one["created_at"] < bound if newest_first else one["created_at"] > bound)]
    return Part(files[:limit], has_more=len(files) > limit)


@given(made, st.integers(1, 6), st.booleans())
def test_pages_that_follow_each_other_show_everything_once_and_in_order(made_at, limit, newest_first):
    by_tag = stored(made_at, newest_first=newest_first)
    seen, mark, after, has_more = [], None, "", True
    while has_more:
        parts = [part_of(tag, by_tag[tag], mark, after, limit, newest_first=newest_first) for tag in TAGS]
        page = merged(parts, limit=limit, newest_first=newest_first)
        seen += [one["id"] for one in page["data"]]
        has_more, after = page["has_more"], page["last_id"]
        mark = Mark(page["data"][-1]["created_at"], after[5:13]) if has_more else None
    whole = merged([Part(files) for files in by_tag.values()], limit=100, newest_first=newest_first)
    assert seen == [one["id"] for one in whole["data"]]
    assert len(seen) == len(set(seen)) == len(made_at)


def test_an_empty_page_names_no_first_and_no_last():
    assert merged([Part([]), Part([])], limit=5, newest_first=True) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }
