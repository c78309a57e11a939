// The verdict follows the live frame; its list is rewritten only when it changes.
(() => {
  "use strict";
  const verdict = document.getElementById("verdict");
  const title = verdict.querySelector("[data-verdict-title]");
  const note = verdict.querySelector("[data-verdict-note]");
  const list = verdict.querySelector("[data-verdict-list]");
  let shown = "";

  function line(problem) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.className = "state";
    link.dataset.state = problem.level;
    link.href = problem.url;
    link.textContent = problem.text;
    item.append(link);
    return item;
  }

  document.addEventListener("live-frame", ({ detail }) => {
    if (JSON.stringify(detail.verdict) === shown) return;
    shown = JSON.stringify(detail.verdict);
    verdict.dataset.state = detail.verdict.state;
    title.textContent = detail.verdict.title;
    note.textContent = detail.verdict.note;
    list.replaceChildren(...detail.verdict.problems.map(line));
  });
})();
