// Forms: sent once however often the button is pressed, and what was typed survives a sign-in in between.
(() => {
  "use strict";
  const KEY = "unsent-form";
  const DETOUR = "unsent-form-detour";
  const KEPT_MS = 3600000;
  const SENDING_MS = 8000;
  const SECRET = "[type=password], [type=hidden], [type=file], [type=submit], [name=code]";

  const token = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const person = () => document.querySelector(".who-name strong")?.textContent;
  const isPost = (form) => form instanceof HTMLFormElement && form.method === "post";

  // The server knows what was sent by this, and does it once.
  function mark(form) {
    let field = form.querySelector("input[name=_once]");
    if (!field) {
      field = document.createElement("input");
      field.type = "hidden";
      field.name = "_once";
      form.append(field);
    }
    field.value = token();
  }

  function typed(form) {
    return [...form.elements]
      .filter((each) => each.name && !each.matches(SECRET) && each.tagName !== "BUTTON")
      .map((each) => [each.name, each.value, each.checked ?? null]);
  }

  function keep(form) {
    const once = form.elements._once.value;
    const draft = { page: location.pathname, action: form.action, person: person(), once, fields: typed(form), at: Date.now() };
    if (draft.person && draft.fields.length) sessionStorage.setItem(KEY, JSON.stringify(draft));
  }

  function take(name) {
    const text = sessionStorage.getItem(name);
    sessionStorage.removeItem(name);
    return text;
  }

  function put(form, fields) {
    for (const [name, value, checked] of fields) {
      for (const field of [...form.elements].filter((each) => each.name === name && !each.matches(SECRET))) {
        if (field.type !== "checkbox" && field.type !== "radio") field.value = value;
        else if (field.value === value) field.checked = checked;
      }
    }
    form.dispatchEvent(new Event("input", { bubbles: true }));
    const dialog = form.closest("dialog");
    if (dialog && !dialog.open) dialog.showModal();
  }

  // After a press on "back" what was sent well is not here any more: the page that answered took it away.
  const cameBack = () => performance.getEntriesByType("navigation")[0]?.type === "back_forward";

  // Only after a page without the frame, where somebody signs in or is told that the form was too old, or none at all.
  function restore() {
    if (!person()) {
      if (sessionStorage.getItem(KEY)) sessionStorage.setItem(DETOUR, "1");
      return;
    }
    const draft = JSON.parse(take(KEY));
    const isUnsent = take(DETOUR) || cameBack();
    if (!isUnsent || !draft || Date.now() - draft.at > KEPT_MS) return;
    const form = [...document.forms].find((each) => isPost(each) && each.action === draft.action);
    if (!form || draft.page !== location.pathname || draft.person !== person()) return;
    put(form, draft.fields);
    form.elements._once.value = draft.once; // should it have been done without an answer, it is not done again
    window.consoleToast("It was not answered: what you had typed is back in its form", "warning");
  }

  function setSending(form, isSending) {
    form.dataset.sending = isSending ? "1" : "";
    for (const button of form.querySelectorAll("[type=submit]")) button.disabled = isSending;
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!isPost(form)) return;
    // htmx sends it, and tells when it is done.
    if (event.defaultPrevented) {
      keep(form);
      return;
    }
    if (form.dataset.sending) {
      event.preventDefault();
      return;
    }
    keep(form);
    // After this turn, so that the pressed button's own value is sent along.
    setTimeout(() => setSending(form, true));
    setTimeout(() => setSending(form, false), SENDING_MS);
  });

  document.addEventListener("htmx:afterRequest", ({ target }) => {
    if (isPost(target)) mark(target);
  });
  document.addEventListener("htmx:afterSettle", () => [...document.forms].filter(isPost).forEach((form) => form.querySelector("[name=_once]") || mark(form)));

  [...document.forms].filter(isPost).forEach(mark);
  restore();
})();
