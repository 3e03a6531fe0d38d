// Light, dark, or as the system has it; runs before the page is painted.
(() => {
  const KEY = "weir-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try { return localStorage.getItem(KEY) ?? "system"; } catch { return "system"; }
  };
  let choice = ["light", "dark"].includes(stored()) ? stored() : "system";
  const apply = () => {
    const dark = choice === "dark" || (choice === "system" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    select.value = choice;
    select.addEventListener("change", () => {
      choice = select.value;
      try { localStorage.setItem(KEY, choice); } catch { /* Kept for this page only. */ }
      apply();
    });
  });
})();
