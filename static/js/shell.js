// What every page has: keys, dialogs, copy buttons, toasts, fresh relative times. No page knows of another's elements.
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const TOAST_MS = 6000;
  const GO_WAIT_MS = 1200;

  // What is on the screen already is not said again: a page that asks every few seconds fails every few seconds.
  function toast(text, state = "ok") {
    const isShown = [...document.querySelectorAll("#toasts .toast-note")].some((each) => each.innerText.trim() === text);
    if (isShown) return;
    const note = document.createElement("div");
    note.className = "toast-note";
    const dot = document.createElement("span");
    dot.className = "state";
    dot.dataset.state = state;
    const words = document.createElement("span");
    words.textContent = text;
    note.append(dot, words);
    $("#toasts").append(note);
    setTimeout(() => note.remove(), TOAST_MS);
  }
  window.consoleToast = toast;

  async function copy(button) {
    const source = button.dataset.copy || $(button.dataset.copyFrom).textContent;
    try {
      await navigator.clipboard.writeText(source.trim());
      toast("Copied");
    } catch {
      toast("The browser refused to copy; select the text instead", "warning");
    }
  }

  function showTab(tab) {
    const tabs = tab.closest("[role=tablist]");
    for (const each of tabs.querySelectorAll("[role=tab]")) {
      const isChosen = each === tab;
      each.setAttribute("aria-selected", String(isChosen));
      document.getElementById(each.getAttribute("aria-controls")).hidden = !isChosen;
    }
  }

  function showTheme(button, choice) {
    const icons = { system: "device-desktop", light: "sun", dark: "moon" };
    const names = { system: "follows the system", light: "light", dark: "dark" };
    const use = $("use", button);
    use.setAttribute("href", use.getAttribute("href").replace(/#.*/, `#${icons[choice]}`));
    button.title = `Theme: ${names[choice]}`;
  }
  showTheme($("[data-toggle-theme]"), window.consoleTheme.current());

  // Where the list of pages is longer than the window.
  $("#rail [aria-current=page]")?.scrollIntoView({ block: "nearest" });

  const clicks = {
    "[data-copy], [data-copy-from]": copy,
    "[data-open]": (button) => document.getElementById(button.dataset.open).showModal(),
    "[data-close]": (button) => button.closest("dialog").close(),
    "[data-dismiss]": (button) => button.parentElement.remove(),
    "[data-toggle-theme]": (button) => showTheme(button, window.consoleTheme.next()),
    "[data-toggle-rail]": () => $("#rail").classList.toggle("is-open"),
    "[role=tab]": showTab,
  };

  document.addEventListener("click", (event) => {
    for (const [selector, act] of Object.entries(clicks)) {
      const target = event.target.closest(selector);
      if (target) return act(target);
    }
    if (event.target.matches("dialog")) event.target.close();
    if (!event.target.closest("#rail")) $("#rail").classList.remove("is-open");
  });

  document.addEventListener("change", (event) => {
    if (event.target.closest("[data-submit-on-change]")) event.target.form.requestSubmit();
  });

  // What may be done with several rows appears once one is chosen.
  function showChosen(bar) {
    const boxes = [...document.querySelectorAll(`[name=chosen][form="${bar.id}"]`)];
    const count = boxes.filter((box) => box.checked).length;
    bar.hidden = !count;
    $("[data-chosen-count]", bar).textContent = `${count} chosen`;
    const all = $(`[data-choose-all="${bar.id}"]`);
    if (!all) return;
    all.checked = count > 0 && count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
  }

  document.addEventListener("change", ({ target }) => {
    const id = target.dataset.chooseAll || (target.name === "chosen" && target.getAttribute("form"));
    if (!id) return;
    if (target.dataset.chooseAll) for (const box of document.querySelectorAll(`[name=chosen][form="${id}"]`)) box.checked = target.checked;
    showChosen(document.getElementById(id));
  });
  document.querySelectorAll("[data-chosen-bar]").forEach(showChosen);

  let wentAt = 0;
  function goTo(key) {
    const link = $(`[data-go="${CSS.escape(key)}"]`);
    if (link) location.assign(link.href);
  }

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (performance.now() - wentAt < GO_WAIT_MS) {
      wentAt = 0;
      goTo(event.key);
    } else if (event.key === "g") {
      wentAt = performance.now();
    } else if (event.key === "?") {
      $("#keys").showModal();
    } else if (event.key === "/") {
      event.preventDefault();
      const search = $("input[type=search]");
      if (search) search.focus();
      else window.consolePalette.open();
    }
  });

  function age(moment) {
    const seconds = Math.round((Date.now() - Date.parse(moment)) / 1000);
    for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (Math.abs(seconds) >= size) {
        const whole = Math.floor(Math.abs(seconds) / size);
        return seconds > 0 ? `${whole} ${name} ago` : `in ${whole} ${name}`;
      }
    }
    return seconds < 5 ? "just now" : `${seconds} s ago`;
  }

  setInterval(() => {
    for (const time of document.querySelectorAll("time[data-relative]")) time.textContent = age(time.dateTime);
  }, 5000);

  for (const note of document.querySelectorAll(".toast-note")) setTimeout(() => note.remove(), TOAST_MS * 2);
  for (const dialog of document.querySelectorAll("dialog[data-open-at-once]")) dialog.showModal();

  // What is refreshed by itself waits while somebody stands in it with the keyboard or has marked a part of it.
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const isPolled = detail.requestConfig?.verb === "get" && !detail.requestConfig.triggeringEvent;
    const marked = getSelection();
    const isRead = detail.target.contains(document.activeElement) || (!marked.isCollapsed && detail.target.contains(marked.anchorNode));
    if (isPolled && isRead) detail.shouldSwap = false;
  });

  document.addEventListener("htmx:responseError", ({ detail }) => {
    const isOut = detail.xhr.status === 401;
    toast(isOut ? "You are signed out. What you typed stays here; send it, and you are asked to sign in first" : "The control plane refused that; nothing was changed", isOut ? "warning" : "breach");
  });
  document.addEventListener("htmx:sendError", () => toast("The control plane cannot be reached", "breach"));
})();
