// One websocket: history once, then one frame a second. Elements say what they show by data-live="key"; the page asks
// for those keys, and a frame has the ones that have changed.
(() => {
  "use strict";
  const RETRY_MIN_MS = 500;
  const RETRY_MAX_MS = 10000;
  const SILENT_AFTER_MS = 4000;
  const SIGNED_OUT = 4401;
  const dot = document.querySelector("[data-link-dot]");
  const words = document.querySelector("[data-link-text]");
  const age = document.querySelector("[data-link-age]");
  let retryMs = RETRY_MIN_MS;
  let heardAt = 0;
  let socket;

  function sayLost(silentMs) {
    age.textContent = ` for ${Math.round(silentMs / 1000)} s`;
    document.dispatchEvent(new CustomEvent("live-lost"));
  }

  // The words are read out when they change; the age, which changes each second, stands beside them.
  function say(text) {
    if (words.textContent !== text) words.textContent = text;
  }

  function showLink() {
    const silentMs = Date.now() - heardAt;
    const isLive = heardAt > 0 && silentMs < SILENT_AFTER_MS;
    document.body.classList.toggle("is-offline", heardAt > 0 && !isLive);
    dot.dataset.state = isLive ? "ok" : heardAt ? "breach" : "unknown";
    age.textContent = "";
    if (isLive) say("Live");
    else if (heardAt) say("No live data"), sayLost(silentMs);
  }

  function showValue(element, value) {
    if (element.dataset.shown === JSON.stringify(value)) return;
    element.dataset.shown = JSON.stringify(value);
    const unit = document.createElement("span");
    unit.className = "unit";
    unit.textContent = value.unit ? ` ${value.unit}` : "";
    element.replaceChildren(value.text, unit);
    element.title = value.title || "";
    element.classList.toggle("unknown", value.text === "–");
    element.classList.toggle("is-stale", Boolean(value.is_stale));
    if (value.state) element.dataset.state = value.state;
    if (value.ratio !== undefined) element.style.setProperty("--ratio", value.ratio);
  }

  function showFrame(frame) {
    for (const element of document.querySelectorAll("[data-live]")) {
      const value = frame.values[element.dataset.live];
      if (value) showValue(element, value);
    }
  }

  const told = {
    history: (message) => document.dispatchEvent(new CustomEvent("live-history", { detail: message })),
    frame(message) {
      showFrame(message);
      document.dispatchEvent(new CustomEvent("live-frame", { detail: message }));
    },
  };

  function ask() {
    if (socket?.readyState !== WebSocket.OPEN) return;
    const keys = [...document.querySelectorAll("[data-live]")].map((element) => element.dataset.live);
    socket.send(JSON.stringify({ show: [...new Set(keys)] }));
  }

  function connect() {
    const url = new URL(document.body.dataset.liveUrl, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    socket = new WebSocket(url);
    socket.addEventListener("open", ask);
    socket.addEventListener("message", (event) => {
      heardAt = Date.now();
      retryMs = RETRY_MIN_MS;
      const message = JSON.parse(event.data);
      told[message.type]?.(message);
      showLink();
    });
    socket.addEventListener("close", ({ code }) => {
      if (code === SIGNED_OUT) window.consoleToast("You are signed out. What you typed stays here; send it, and you are asked to sign in first", "warning");
      setTimeout(connect, retryMs * (0.5 + Math.random()));
      retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
    });
  }

  if (document.body.dataset.liveUrl) {
    connect();
    setInterval(showLink, 1000);
    document.addEventListener("htmx:afterSettle", ask);
  }
})();
