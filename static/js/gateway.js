// Talks to the gateway as any client would, with a short-lived key that the console mints when it is first needed.
(() => {
  "use strict";
  // A new key is known to the gateways within a second or so of being minted.
  const KEY_ARRIVES_WITHIN_MS = 8000;
  const KEY_RETRY_MS = 400;
  const KEY_SPARE_S = 30;

  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  async function askConsole(url, options = {}) {
    const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
    const response = await fetch(url, { ...options, headers: { "X-CSRFToken": token, Accept: "application/json" } });
    if (response.status === 401) throw new Error("You are signed out. Sign in in another tab, then try again.");
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).detail || `The console answered ${response.status}.`);
    return response;
  }

  function client({ gatewayUrl, keyUrl }) {
    let key = null;
    let minting = null;

    async function mint() {
      const minted = await (await askConsole(keyUrl, { method: "POST" })).json();
      key = { ...minted, mintedAt: Date.now() };
    }

    async function freshKey() {
      if (!key || key.expires_at < Date.now() / 1000 + KEY_SPARE_S) {
        minting ||= mint().finally(() => (minting = null));
        await minting;
      }
      return key;
    }

    async function ask(path, options = {}) {
      for (;;) {
        const { secret, mintedAt } = await freshKey();
        const startedAt = performance.now();
        const headers = { ...options.headers, Authorization: `Bearer ${secret}` };
        const response = await fetch(`${gatewayUrl}${path}`, { ...options, headers });
        if (response.status !== 401 || Date.now() - mintedAt > KEY_ARRIVES_WITHIN_MS) return { response, startedAt };
        await pause(KEY_RETRY_MS);
      }
    }

    async function refusal(response) {
      const error = (await response.json().catch(() => null))?.error;
      return new Error(error?.message || `The gateway answered ${response.status}.`);
    }

    const words = (error) => (error instanceof TypeError ? `The gateway at ${gatewayUrl} cannot be reached.` : error.message);
    return { freshKey, ask, refusal, words };
  }

  window.consoleGateway = { client, askConsole, pause };
})();
