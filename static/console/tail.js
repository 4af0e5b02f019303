// Follows a topic: puts the messages of each answer above the rows that are there. live.js decides when to ask. Without
// this script the page's link "Newer" shows the messages that have arrived.
"use strict";

(() => {
  const tail = document.querySelector("[data-tail]");
  const part = document.getElementById("part-tail");
  if (!part?.querySelector("[data-since]")) return;
  const button = document.querySelector("[data-tail-pause]");
  const control = document.querySelector("[data-refresh]");
  const said = document.querySelector("[data-said]");
  const MOST_ROWS = Number(tail.dataset.mostRows);
  const STOP_AFTER_MS = Number(tail.dataset.stopAfterS) * 1000;
  const SAY_MS = 10_000; // between two announcements of the count
  let stopped = ""; // why: paused, hidden or time
  let timer = 0;

  const find = (name, where = part) => where.querySelector(`[data-${name}]`);

  function show() {
    const why = stopped || (control?.value === "off" ? "off" : "");
    for (const note of document.querySelectorAll("[data-why]")) note.hidden = note.dataset.why !== why;
    button.textContent = stopped ? button.dataset.resume : button.dataset.pause;
  }

  function stop(why) {
    clearTimeout(timer);
    stopped = why;
    part.toggleAttribute("data-paused", why !== "");
    if (!why) timer = setTimeout(() => stop("time"), STOP_AFTER_MS);
    show();
  }

  button.addEventListener("click", () => {
    const wasStopped = stopped !== "";
    stop(wasStopped ? "" : "paused");
    if (wasStopped) htmx.trigger(part, "refresh");
  });
  control?.addEventListener("change", show);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && !stopped) stop("hidden");
  });

  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.elt === part) event.detail.parameters.since = find("since").dataset.since;
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target !== part || !event.detail.shouldSwap) return;
    event.detail.shouldSwap = false;
    const answer = document.createElement("template");
    answer.innerHTML = event.detail.xhr.responseText;
    const look = find("since", answer.content);
    if (!look) return;
    const rows = part.querySelector("tbody");
    rows.prepend(...look.querySelectorAll("tbody > tr"));
    while (rows.rows.length > MOST_ROWS) rows.deleteRow(-1);
    find("empty").hidden = rows.rows.length > 0;
    for (const name of ["words", "newer"]) find(name).replaceWith(find(name, look));
    find("since").dataset.since = look.dataset.since;
  });

  setInterval(() => {
    const words = find("words").textContent;
    if (said.textContent !== words) said.textContent = words;
  }, SAY_MS);
  stop("");
})();
