// The canary split: whatever is typed, the bar and the sentence show what it would do before it is done.
(() => {
  "use strict";
  const form = document.querySelector("[data-split-form]");
  if (!form) return;
  const inputs = [...form.querySelectorAll("[data-weight]")];
  const share = (weight, sum) => (sum ? (100 * weight) / sum : 0);
  const percent = (value) => `${Number(value.toFixed(1))} %`;

  function show() {
    const weights = inputs.map((input) => Math.max(0, Math.trunc(Number(input.value) || 0)));
    const sum = weights.reduce((a, b) => a + b, 0);
    inputs.forEach((input, index) => {
      form.querySelector(`[data-share="${input.name}"]`).textContent = sum ? percent(share(weights[index], sum)) : "–";
      form.querySelector(`[data-bar="${input.name}"]`)?.setAttribute("width", `${share(weights[index], sum)}%`);
    });
    let offset = 0;
    inputs.forEach((input, index) => {
      form.querySelector(`[data-bar="${input.name}"]`)?.setAttribute("x", `${offset}%`);
      offset += share(weights[index], sum);
    });
  }

  form.addEventListener("input", show);
  show();
})();
