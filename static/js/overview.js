// The verdict follows the live frame; its list is rewritten only when it changes.
(() => {
  "use strict";
  const verdict = document.getElementById("verdict");
  const title = verdict.querySelector("[data-verdict-title]");
  const note = verdict.querySelector("[data-verdict-note]");
  const list = verdict.querySelector("[data-verdict-list]");
  let shown = "";

  function line({ level, text, url }) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    if (level) {
      link.className = "state";
      link.dataset.state = level;
    }
    link.href = url;
    link.textContent = text;
    item.append(link);
    return item;
  }

  const rest = (more) => (more ? [line({ text: `and ${more} more`, url: verdict.dataset.alertsUrl })] : []);

  function show(found) {
    if (JSON.stringify(found) === shown) return;
    shown = JSON.stringify(found);
    verdict.dataset.state = found.state;
    title.textContent = found.title;
    note.textContent = found.note;
    list.replaceChildren(...found.problems.map(line), ...rest(found.more));
  }

  // Silence is not health.
  const LOST = {
    state: "unknown",
    title: "Not known",
    note: "The control plane is silent, so what stands below is old. Gateways go on serving without it.",
    problems: [],
    more: 0,
  };

  document.addEventListener("live-frame", ({ detail }) => show(detail.verdict));
  document.addEventListener("live-lost", () => show(LOST));
})();
