// Runs before the first paint, so that a pinned theme does not flash.
(() => {
  "use strict";
  const pinned = localStorage.getItem("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = (choice) => {
    document.documentElement.dataset.bsTheme = choice || (system.matches ? "dark" : "light");
  };
  apply(pinned);
  system.addEventListener("change", () => apply(localStorage.getItem("theme")));
  window.consoleTheme = {
    current: () => localStorage.getItem("theme") || "system",
    next() {
      const order = ["system", "light", "dark"];
      const choice = order[(order.indexOf(this.current()) + 1) % order.length];
      if (choice === "system") localStorage.removeItem("theme");
      else localStorage.setItem("theme", choice);
      apply(choice === "system" ? null : choice);
      document.dispatchEvent(new CustomEvent("theme-changed"));
      return choice;
    },
  };
})();
