"""Reading a page as a strict browser would."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """`problems` are what a policy without 'unsafe-inline' would refuse, and what would be fetched from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.problems = []
        self.ids = []
        self.labelled = set()
        self.nameless_fields = []
        self._fields = []
        self._open_labels = 0
        self.feed(text)
        self.nameless_fields = [field for field in self._fields if field.get("id") not in self.labelled]

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.problems += [f"<{tag} {name}>" for name in values if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in values):
            self.problems.append(f"inline <{tag}>")
        for name in ("src", "href", "action"):
            if (values.get(name) or "").startswith(("http:", "https:", "//", "javascript:")):
                self.problems.append(f"<{tag} {name}={values[name]}>")
        self._note_labels(tag, values)

    def _note_labels(self, tag, values):
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "label":
            self._open_labels += 1
            self.labelled.add(values.get("for", ""))
        is_field = tag in {"input", "select", "textarea"} and values.get("type") != "hidden"
        if is_field and not self._open_labels and "aria-label" not in values:
            self._fields.append(values)

    def handle_endtag(self, tag):
        self._open_labels -= tag == "label"
