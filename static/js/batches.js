// The tenant's batches, asked of the gateway: rows stay where they are, new ones wait behind a button.
(() => {
  "use strict";
  const root = document.getElementById("batches");
  const rows = document.getElementById("batch-rows");
  const note = document.getElementById("batch-note");
  const none = document.getElementById("batch-none");
  const older = document.getElementById("batch-older");
  const newer = document.getElementById("batch-newer");
  const search = document.querySelector("#batch-filter input");
  const cancelling = document.getElementById("cancel-batch");
  const gateway = window.consoleGateway.client(root.dataset);
  const PAGE = 20;
  const EVERY_MS = 5000;
  const LEVELS = { completed: "ok", failed: "breach", expired: "breach", cancelled: "unknown" };
  const OPEN = ["validating", "in_progress", "finalizing"];
  const shown = new Map();
  let waiting = [];
  let oldest = "";

  async function list(after = "") {
    const query = new URLSearchParams({ limit: PAGE, ...(after && { after }) });
    const { response } = await gateway.ask(`/v1/batches?${query}`);
    if (!response.ok) throw await gateway.refusal(response);
    return response.json();
  }

  function cell(content, className = "") {
    const made = document.createElement("td");
    made.className = className;
    made.append(content);
    return made;
  }

  function stateOf(batch) {
    const made = document.createElement("span");
    made.className = "state";
    made.dataset.state = LEVELS[batch.status] || "warning";
    made.textContent = batch.status.replace("_", " ");
    made.title = (batch.errors?.data || []).map((error) => `${error.line ? `line ${error.line}: ` : ""}${error.message}`).join("\n");
    return made;
  }

  function button(text, act, className = "btn btn-quiet") {
    const made = document.createElement("button");
    made.type = "button";
    made.className = className;
    made.textContent = text;
    made.addEventListener("click", act);
    return made;
  }

  async function download(id) {
    try {
      const { response } = await gateway.ask(`/v1/files/${id}/content`);
      if (!response.ok) throw await gateway.refusal(response);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = `${id}.jsonl`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), EVERY_MS);
    } catch (error) {
      window.consoleToast(gateway.words(error), "breach");
    }
  }

  function askToCancel(batch) {
    cancelling.dataset.batch = batch.id;
    cancelling.querySelector("[data-batch-name]").textContent = batch.id;
    cancelling.showModal();
  }

  function acts(batch) {
    const made = document.createElement("div");
    made.className = "actions";
    if (batch.output_file_id) made.append(button("Answers", () => download(batch.output_file_id)));
    if (batch.error_file_id) made.append(button("Errors", () => download(batch.error_file_id)));
    if (OPEN.includes(batch.status)) made.append(button("Cancel", () => askToCancel(batch), "btn btn-quiet btn-danger"));
    return made;
  }

  function when(unixS) {
    const made = document.createElement("time");
    made.dateTime = new Date(unixS * 1000).toISOString();
    made.textContent = new Date(unixS * 1000).toLocaleString();
    return made;
  }

  function fill(row, batch) {
    const counts = batch.request_counts;
    const name = document.createElement("code");
    name.className = "batch-id";
    name.title = batch.id;
    name.textContent = batch.id;
    row.replaceChildren(
      cell(name),
      cell(stateOf(batch)),
      cell(batch.endpoint),
      cell(String(counts.completed), "right"),
      cell(String(counts.failed), "right"),
      cell(String(counts.total), "right"),
      cell(when(batch.created_at), "right"),
      cell(acts(batch), "right fit"),
    );
  }

  function show(batch, isNew) {
    const said = JSON.stringify(batch);
    const known = shown.get(batch.id);
    if (known?.said === said) return;
    const row = known?.row || document.createElement("tr");
    fill(row, batch);
    if (!known) isNew ? rows.prepend(row) : rows.append(row);
    shown.set(batch.id, { row, said, batch });
  }

  function narrow() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { row } of shown.values()) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  }

  function settle() {
    none.hidden = shown.size > 0;
    rows.closest(".table-wrap").hidden = !shown.size;
    newer.hidden = !waiting.length;
    newer.textContent = `${waiting.length} new`;
    note.textContent = `${shown.size} shown, asked of the gateway every 5 s`;
    narrow();
  }

  function fail(error) {
    note.textContent = gateway.words(error);
  }

  async function more() {
    const page = await list(oldest);
    page.data.forEach((batch) => show(batch, false));
    oldest = page.data.at(-1)?.id || oldest;
    older.hidden = !page.has_more;
    settle();
  }

  async function refresh() {
    if (document.hidden) return;
    const page = await list();
    const isFirst = !shown.size;
    for (const batch of page.data) if (isFirst || shown.has(batch.id)) show(batch, false);
    waiting = isFirst ? [] : page.data.filter((batch) => !shown.has(batch.id));
    settle();
  }

  newer.addEventListener("click", () => {
    [...waiting].reverse().forEach((batch) => show(batch, true));
    waiting = [];
    settle();
  });
  older.addEventListener("click", () => more().catch(fail));
  search.addEventListener("input", narrow);
  document.getElementById("batch-filter").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("cancel-batch-form").addEventListener("submit", async () => {
    const { response } = await gateway.ask(`/v1/batches/${cancelling.dataset.batch}/cancel`, { method: "POST" });
    if (!response.ok) window.consoleToast((await gateway.refusal(response)).message, "breach");
    refresh().catch(fail);
  });

  more().catch(fail);
  setInterval(() => refresh().catch(fail), EVERY_MS);
})();
