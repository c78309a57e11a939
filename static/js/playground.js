// Chats with the gateway itself, as any client would: the control plane only mints the key and knows the cost.
(() => {
  "use strict";
  const root = document.getElementById("playground");
  const log = document.getElementById("chat-log");
  const form = document.getElementById("chat-form");
  const prompt = document.getElementById("chat-prompt");
  const model = document.getElementById("chat-model");
  const send = document.getElementById("chat-send");
  const stop = document.getElementById("chat-stop");
  const figure = (name) => root.querySelector(`[data-figure="${name}"]`);

  const COST_ARRIVES_WITHIN_MS = 20000;
  const COST_RETRY_MS = 700;

  const { askConsole, pause } = window.consoleGateway;
  const gateway = window.consoleGateway.client(root.dataset);
  const messages = [];
  let running = null;

  function bubble(role, text = "") {
    root.querySelector("[data-empty]")?.remove();
    const item = document.createElement("li");
    item.className = "chat-message";
    item.dataset.role = role;
    const name = document.createElement("span");
    name.className = "chat-name";
    name.textContent = role === "user" ? "You" : model.value;
    const body = document.createElement("div");
    body.className = "chat-text";
    body.textContent = text;
    const foot = document.createElement("div");
    foot.className = "chat-foot num";
    item.append(name, body, foot);
    log.append(item);
    item.scrollIntoView({ block: "end" });
    return { body, foot, item };
  }

  function setFigure(name, text, unit = "") {
    const small = document.createElement("span");
    small.className = "unit";
    small.textContent = unit ? ` ${unit}` : "";
    figure(name).replaceChildren(text, small);
  }

  async function open(signal) {
    const body = {
      model: model.value,
      messages,
      stream: true,
      stream_options: { include_usage: true },
      temperature: Number(document.getElementById("chat-temperature").value),
      max_tokens: Number(document.getElementById("chat-max-tokens").value),
    };
    const headers = { "Content-Type": "application/json" };
    return gateway.ask("/v1/chat/completions", { method: "POST", headers, body: JSON.stringify(body), signal });
  }

  // Server-sent events: blocks between blank lines; "data: [DONE]" ends the stream.
  async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const data = block.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
        if (data && data !== "[DONE]") yield JSON.parse(data);
      }
    }
  }

  async function showCost(requestId, foot) {
    const until = Date.now() + COST_ARRIVES_WITHIN_MS;
    const query = new URLSearchParams({ key_id: (await gateway.freshKey()).key_id, request_id: requestId });
    while (Date.now() < until) {
      const response = await askConsole(`${root.dataset.recordUrl}?${query}`);
      if (response.status === 200) {
        const record = await response.json();
        setFigure("cost", record.cost);
        const link = document.createElement("a");
        link.href = record.url;
        link.textContent = `${record.cost} · record`;
        foot.append(" · ", link);
        return;
      }
      await pause(COST_RETRY_MS);
    }
    setFigure("cost", "–");
    figure("cost").title = "The usage record has not arrived yet; look at Requests in a moment";
  }

  async function receive(response, answer, startedAt) {
    let firstAt = 0;
    let usage = null;
    let requestId = response.headers.get("x-request-id") || "";
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      requestId ||= event.id || "";
      usage = event.usage || usage;
      const piece = event.choices?.[0]?.delta?.content;
      if (!piece) continue;
      if (!firstAt) setFigure("ttft", Math.round((firstAt = performance.now()) - startedAt), "ms");
      answer.body.append(piece);
      answer.item.scrollIntoView({ block: "nearest" });
    }
    showUsage(usage, firstAt, answer);
    return requestId;
  }

  function showUsage(usage, firstAt, answer) {
    if (!usage) return;
    const seconds = (performance.now() - firstAt) / 1000;
    setFigure("input", usage.prompt_tokens, "tokens");
    setFigure("output", usage.completion_tokens, "tokens");
    if (firstAt && usage.completion_tokens > 1) setFigure("speed", ((usage.completion_tokens - 1) / seconds).toFixed(1), "tok/s");
    answer.foot.textContent = `${usage.prompt_tokens} in · ${usage.completion_tokens} out`;
  }

  async function chat(text) {
    messages.push({ role: "user", content: text });
    bubble("user", text);
    const answer = bubble("assistant");
    answer.item.classList.add("is-writing");
    for (const name of ["ttft", "input", "output", "speed", "cost"]) setFigure(name, "…");
    running = new AbortController();
    let requestId = "";
    try {
      const { response, startedAt } = await open(running.signal);
      if (!response.ok) throw await gateway.refusal(response);
      requestId = response.headers.get("x-request-id") || "";
      requestId = await receive(response, answer, startedAt);
    } catch (error) {
      const isStopped = error.name === "AbortError";
      answer.foot.textContent = isStopped ? "stopped; what was generated is charged" : "";
      if (!isStopped) fail(answer, error);
    } finally {
      running = null;
      answer.item.classList.remove("is-writing");
    }
    remember(answer);
    return { requestId, answer };
  }

  // A failed turn leaves the conversation as it was, so that the next try does not carry it along.
  function remember(answer) {
    if (answer.item.dataset.state === "breach") messages.pop();
    else messages.push({ role: "assistant", content: answer.body.textContent });
  }

  function fail(answer, error) {
    answer.item.dataset.state = "breach";
    answer.body.textContent = gateway.words(error);
    for (const name of ["ttft", "input", "output", "speed", "cost"]) if (figure(name).textContent.startsWith("…")) setFigure(name, "–");
  }

  function setBusy(isBusy) {
    send.hidden = isBusy;
    stop.hidden = !isBusy;
    model.disabled = isBusy;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = prompt.value.trim();
    if (!text || running) return;
    prompt.value = "";
    setBusy(true);
    const { requestId, answer } = await chat(text).finally(() => setBusy(false));
    prompt.focus();
    if (requestId) await showCost(requestId, answer.foot).catch(() => setFigure("cost", "–"));
    else setFigure("cost", "–");
  });

  // Asked for while the first words are typed, the key has reached the gateway by the time they are sent.
  prompt.addEventListener("input", () => gateway.freshKey().catch(() => {}), { once: true });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  stop.addEventListener("click", () => running?.abort());
  document.getElementById("chat-clear").addEventListener("click", () => {
    running?.abort();
    messages.length = 0;
    log.replaceChildren();
  });
})();
