// Live refresh, ages and keys. Everything works without this file; nothing here decides what a number is.
"use strict";

(() => {
  const root = document.documentElement;
  root.classList.add("js");

  const REFRESH = "vela_refresh";
  const POLL_MS = 5000;
  const dirty = new Set();
  let stream = null;
  let poll = null;

  const mode = () => localStorage.getItem(REFRESH) || "live";
  const parts = () => [...document.querySelectorAll("[data-live]")].filter((part) => part.dataset.live);
  const mark = (state) => {
    const pulse = document.querySelector("[data-pulse]");
    if (pulse) pulse.className = `pulse ${state}`;
  };

  // --- Blocks: read again only when nobody is busy inside -----------------------------------------------------

  function busy(part) {
    if (document.querySelector("dialog[open]")) return true;
    const focus = document.activeElement;
    if (focus && part.contains(focus) && focus.matches("input, select, textarea")) return true;
    if (part.querySelector("input:checked")) return true;
    const selection = getSelection();
    return selection && !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(part);
  }

  function flush() {
    if (mode() === "off" || document.hidden) return;
    for (const part of [...dirty]) {
      if (!part.isConnected) dirty.delete(part);
      else if (!busy(part)) {
        dirty.delete(part);
        htmx.trigger(part, "refresh");
      }
    }
  }

  function changed(keys) {
    for (const part of parts()) {
      const own = part.dataset.live.split(" ");
      if (keys === null || own.some((key) => keys.includes(key))) dirty.add(part);
    }
    flush();
  }

  document.addEventListener("htmx:configRequest", (event) => {
    const etag = event.detail.elt.dataset.etag;
    if (etag) event.detail.headers["If-None-Match"] = etag;
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    // What was opened, and the row the keys stand on, stay so.
    part.velaOpen = [...part.querySelectorAll("details")].map((details) => details.open);
    part.velaRow = [...part.querySelectorAll("[data-row]")].findIndex((row) => row.classList.contains("at"));
    part.velaFocus = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    const part = event.detail.target;
    [...part.querySelectorAll("details")].forEach((details, number) => (details.open = Boolean(part.velaOpen?.[number])));
    if (part.velaRow >= 0) part.querySelectorAll("[data-row]")[part.velaRow]?.classList.add("at");
    if (part.velaFocus) part.querySelector(`[href="${CSS.escape(part.velaFocus)}"]`)?.focus();
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    const part = event.detail.elt;
    const reply = event.detail.xhr;
    const etag = reply.getResponseHeader("ETag");
    if (etag && part.dataset.etag) part.dataset.etag = etag;
    if (reply.status === 304) {
      for (const read of part.querySelectorAll("time.read")) read.dateTime = new Date().toISOString();
    }
    if (reply.responseURL && new URL(reply.responseURL).pathname === "/login") location.reload();
    // A waiting act that has been answered needs its whole page: the next step stands below the block.
    if (part.dataset.live.startsWith("act:") && reply.status === 200) location.reload();
  });

  // --- The stream, and polling where it fails ------------------------------------------------------------------

  function stopPolling() {
    clearInterval(poll);
    poll = null;
  }

  function startPolling(every_ms) {
    stopPolling();
    poll = setInterval(() => changed(null), every_ms);
  }

  function connect() {
    stream?.close();
    stream = null;
    stopPolling();
    const chosen = mode();
    mark("");
    if (chosen === "off" || document.hidden || parts().length === 0) return;
    if (chosen !== "live") return startPolling(Number(chosen) * 1000);
    const keys = [...new Set(parts().flatMap((part) => part.dataset.live.split(" ")))];
    stream = new EventSource(`/live?${new URLSearchParams(keys.map((key) => ["key", key]))}`);
    stream.onopen = () => {
      stopPolling();
      mark("on");
    };
    stream.onmessage = (event) => changed(JSON.parse(event.data));
    stream.addEventListener("ended", () => {
      stream.close();
      location.reload();
    });
    stream.onerror = () => {
      mark("lost");
      if (poll === null) startPolling(POLL_MS);
    };
  }

  document.addEventListener("visibilitychange", () => {
    connect();
    if (!document.hidden) changed(null);
  });
  addEventListener("pagehide", () => stream?.close());

  // --- Ages ------------------------------------------------------------------------------------------------------

  const GAP = "\u202f";

  function span(seconds) {
    if (seconds < 99.5) return `${Math.round(seconds)}${GAP}s`;
    const minutes = Math.round(seconds / 60);
    if (minutes < 100) return `${minutes}${GAP}min`;
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return minutes % 60 ? `${hours}${GAP}h ${minutes % 60}${GAP}min` : `${hours}${GAP}h`;
    return `${Math.round(hours / 24)}${GAP}d`;
  }

  function tick() {
    const now = Date.now();
    for (const time of document.querySelectorAll("time.ago")) {
      const seconds = (now - Date.parse(time.dateTime)) / 1000;
      const text = seconds < -1 ? `in ${span(-seconds)}` : seconds < 0.95 ? "just now" : `${span(seconds)} ago`;
      if (time.textContent !== text && !busy(time)) time.textContent = text;
    }
    flush();
  }

  // --- Keys --------------------------------------------------------------------------------------------------------

  let before = "";
  const go = { t: "/topics", a: "/acts" };

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
      for (const menu of document.querySelectorAll(".menu[open]")) menu.open = false;
      return;
    }
    if (field || document.querySelector("dialog[open]")) return;
    const chord = before;
    before = "";
    if (chord === "g" && go[event.key]) location.assign(go[event.key]);
    else if (event.key === "g") before = "g";
    else if (event.key === "/") document.querySelector(".find input")?.focus();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "p") choose(mode() === "off" ? "live" : "off");
    else if (event.key === "?") document.getElementById("keys")?.showModal();
    else return;
    event.preventDefault();
  }

  function choose(value) {
    localStorage.setItem(REFRESH, value);
    const control = document.querySelector("[data-refresh]");
    if (control) control.value = value;
    connect();
    if (value !== "off") changed(null);
  }

  // Filling in a way's own field chooses that way.
  document.addEventListener("focusin", (event) => {
    const body = event.target.closest(".choice-body");
    const radio = body?.parentElement.querySelector('input[type="radio"]');
    if (radio) radio.checked = true;
  });

  document.addEventListener("keydown", press);
  document.querySelector("[data-keys]")?.addEventListener("click", () => document.getElementById("keys").showModal());
  const control = document.querySelector("[data-refresh]");
  if (control) {
    control.value = mode();
    control.addEventListener("change", () => choose(control.value));
  }
  setInterval(tick, 1000);
  connect();
})();
