// Keyboard shortcuts and forms. Every page also works without scripts.
"use strict";

(() => {
  document.documentElement.classList.add("js");

  let before = "";

  // The link of the menu that `g` followed by this key opens.
  const goal = (key) => [...document.querySelectorAll("[data-go]")].find((link) => link.dataset.go === key);

  function search() {
    const menu = document.querySelector(".pages-open");
    const field = document.querySelector(".find input");
    if (menu && field && field.offsetParent === null) menu.checked = true;
    field?.focus();
  }

  function step(by) {
    const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.querySelector("a"));
    if (rows.length === 0) return;
    const at = rows.findIndex((row) => row.classList.contains("at"));
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
    for (const row of rows) row.classList.toggle("at", row === next);
    next.querySelector("a").focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.matches?.("input, select, textarea");
    if (event.key === "Escape") {
      if (field) event.target.blur();
      for (const menu of document.querySelectorAll(".menu[open]")) close(menu);
      for (const menu of document.querySelectorAll(".pages-open")) menu.checked = false;
      return;
    }
    if (field || document.querySelector("dialog[open]")) return;
    const chord = before;
    before = "";
    const link = chord === "g" && goal(event.key);
    if (link) link.click();
    else if (event.key === "g") before = "g";
    else if (event.key === "/") search();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "p") pause();
    else if (event.key === "?") document.getElementById("keys")?.showModal();
    else return;
    event.preventDefault();
  }

  function close(menu) {
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }

  function pause() {
    const control = document.querySelector("[data-refresh]");
    if (!control) return;
    control.value = control.value === "off" ? "live" : "off";
    control.dispatchEvent(new Event("change"));
  }

  // Clicking or filling in a choice's own field selects that choice. Passing it with the tab key does not.
  function choose(event) {
    const body = event.target.closest(".choice-body");
    const radio = body?.parentElement.querySelector('input[type="radio"]');
    if (radio) radio.checked = true;
  }

  // Tabs scroll sideways in a narrow window. Keep the current one in sight.
  for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
    const row = tab.parentElement;
    row.scrollLeft = tab.offsetLeft - row.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
  }

  document.addEventListener("click", choose);
  document.addEventListener("input", choose);
  document.addEventListener("keydown", press);
  document.querySelector("[data-keys]")?.addEventListener("click", () => document.getElementById("keys").showModal());
})();
