// Ctrl-K: every page, object and action this person may reach, asked for when it opens and again by what is typed.
(() => {
  "use strict";
  const dialog = document.getElementById("palette");
  const input = document.getElementById("palette-input");
  const list = document.getElementById("palette-list");
  const SHOWN = 40;
  const TYPED_MS = 150;
  let entries = [];
  let chosen = 0;

  // Every word must occur; a hit at the start of the label comes first.
  function score(entry, words) {
    const text = `${entry.label} ${entry.kind} ${entry.hint}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) return -1;
    return words.length && entry.label.toLowerCase().startsWith(words[0]) ? 2 : 1;
  }

  function matching() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    return entries
      .map((entry) => [score(entry, words), entry])
      .filter(([points]) => points > 0)
      .sort(([a], [b]) => b - a)
      .slice(0, SHOWN)
      .map(([, entry]) => entry);
  }

  function row(entry, index) {
    const item = document.createElement("li");
    item.className = "palette-item";
    item.id = `palette-${index}`;
    item.role = "option";
    item.dataset.href = entry.url;
    item.setAttribute("aria-selected", String(index === chosen));
    const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    icon.classList.add("icon");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", `${dialog.dataset.icons}#${entry.icon}`);
    icon.append(use);
    const hint = document.createElement("small");
    hint.textContent = entry.hint || entry.kind;
    item.append(icon, entry.label, hint);
    return item;
  }

  function render() {
    const shown = matching();
    chosen = Math.max(0, Math.min(chosen, shown.length - 1));
    list.replaceChildren(...shown.map(row));
    if (!shown.length) {
      const none = document.createElement("li");
      none.className = "palette-group";
      none.textContent = entries.length ? "Nothing by that name." : "Loading…";
      list.append(none);
    }
    input.setAttribute("aria-activedescendant", `palette-${chosen}`);
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  }

  // What was found before stays: names may stand in other words than the first.
  async function find(words) {
    const response = await fetch(`${dialog.dataset.source}?${new URLSearchParams({ q: words })}`, { headers: { Accept: "application/json" } });
    if (!response.ok) return;
    const known = new Set(entries.map((entry) => entry.url + entry.label));
    entries = [...entries, ...(await response.json()).entries.filter((entry) => !known.has(entry.url + entry.label))];
    render();
  }

  let typing = 0;
  function typed() {
    chosen = 0;
    render();
    clearTimeout(typing);
    const [first] = input.value.trim().split(/\s+/);
    if (first) typing = setTimeout(() => find(first), TYPED_MS);
  }

  async function open() {
    if (dialog.open) return;
    input.value = "";
    chosen = 0;
    dialog.showModal();
    render();
    entries = [];
    await find("");
  }
  window.consolePalette = { open };

  const follow = (item) => item?.dataset.href && location.assign(item.dataset.href);
  input.addEventListener("input", typed);
  list.addEventListener("click", (event) => follow(event.target.closest("[role=option]")));
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      chosen += step;
      render();
    } else if (event.key === "Enter") {
      event.preventDefault();
      follow(list.children[chosen]);
    }
  });

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    }
  });
  for (const button of document.querySelectorAll("[data-open-palette]")) button.addEventListener("click", open);
})();
