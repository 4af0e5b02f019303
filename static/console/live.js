// Decides when a block may be read again, and updates ages. htmx's sse extension opens the stream, requests blocks and
// swaps them.
"use strict";

(() => {
  const REFRESH = "vela_refresh";
  const POLL_MS = 5000;
  const postponed = new Set(); // blocks that changed while they could not be read
  const streaming = document.querySelector("[sse-connect]");
  const control = document.querySelector("[data-refresh]");
  let stream = null;
  let isLost = false;

  const mode = () => localStorage.getItem(REFRESH) || "live";
  const isWatched = () => !document.hidden;
  const age_ms = (part) => Date.now() - (part.velaRead_ms ?? performance.timeOrigin);
  const mark = () => {
    const pulse = document.querySelector("[data-pulse]");
    if (pulse) pulse.className = `pulse ${isLost ? "lost" : isWatched() && mode() !== "off" ? "on" : ""}`;
  };

  // --- Blocks: read again unless the user is busy inside ---------------------------------------------------------

  function busy(part) {
    if (part.hasAttribute("data-paused") || document.querySelector("dialog[open]")) return true;
    const focus = document.activeElement;
    if (focus && part.contains(focus) && focus.matches("input, select, textarea")) return true;
    if (part.querySelector("input:checked")) return true;
    const selection = getSelection();
    return selection && !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(part);
  }

  // While the console or its database does not answer, a request would only wait.
  const mayAsk = () => isWatched() && mode() !== "off" && !document.body.classList.contains("unread");
  const mayRead = (part) => mayAsk() && !busy(part) && (mode() === "live" || age_ms(part) >= Number(mode()) * 1000);

  function release() {
    for (const part of [...postponed]) if (mayRead(part)) htmx.trigger(part, "refresh");
  }

  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["If-None-Match"] = event.detail.elt.dataset.etag;
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.detail.elt;
    if (mayRead(part)) {
      postponed.delete(part);
      part.velaRead_ms = Date.now();
    } else {
      postponed.add(part);
      event.preventDefault();
    }
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target: part, xhr: reply } = event.detail;
    if (reply.status === 304) {
      for (const read of part.querySelectorAll("time.read")) read.dateTime = new Date().toISOString();
    } else if (new URL(reply.responseURL).pathname === "/login") {
      event.detail.shouldSwap = false;
      location.reload();
    } else if (busy(part)) {
      event.detail.shouldSwap = false;
      postponed.add(part);
    } else if (event.detail.shouldSwap) {
      part.dataset.etag = reply.getResponseHeader("ETag");
      // Remember open details, the row selected by keyboard and the focused link, to restore them after the swap.
      part.velaOpen = [...part.querySelectorAll("details")].map((details) => details.open);
      part.velaRow = [...part.querySelectorAll("[data-row]")].findIndex((row) => row.classList.contains("at"));
      part.velaFocus = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    }
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    const part = event.detail.target;
    [...part.querySelectorAll("details")].forEach((details, number) => (details.open = Boolean(part.velaOpen[number])));
    if (part.velaRow >= 0) part.querySelectorAll("[data-row]")[part.velaRow]?.classList.add("at");
    if (part.velaFocus) part.querySelector(`[href="${CSS.escape(part.velaFocus)}"]`)?.focus();
  });

  // --- The stream: closed while the page is hidden, because a browser opens at most six connections to a host ----

  htmx.createEventSource = (url) => {
    stream?.close();
    stream = new EventSource(url);
    stream.addEventListener("health", (event) => {
      document.dispatchEvent(new CustomEvent("vela:health", { detail: JSON.parse(event.data) }));
    });
    if (!isWatched()) stream.close();
    return stream;
  };

  function watch() {
    if (!isWatched()) {
      stream?.close();
    } else if (stream?.readyState === EventSource.CLOSED) {
      // The extension opens the stream when htmx has processed its node, and then subscribes each block to it.
      for (const node of [streaming, ...streaming.querySelectorAll("[hx-trigger]")]) htmx.trigger(node, "htmx:afterProcessNode");
    }
    mark();
    release();
  }

  function lose(lost) {
    isLost = lost;
    mark();
  }

  document.addEventListener("visibilitychange", watch);
  document.addEventListener("htmx:sseOpen", () => lose(false));
  document.addEventListener("htmx:sseError", () => lose(true));
  // health.js hears nothing from the stream, or has reached the console without it.
  document.addEventListener("vela:silence", () => lose(true));
  document.addEventListener("vela:answer", watch);
  document.addEventListener("vela:health", () => lose(false));
  document.addEventListener("vela:reread", () => {
    for (const part of document.querySelectorAll("[data-live]")) postponed.add(part);
    release();
  });
  document.addEventListener("htmx:sseClose", (event) => {
    if (event.detail.type === "message") location.reload(); // the session has ended
  });

  if (control) {
    control.value = mode();
    control.addEventListener("change", () => {
      localStorage.setItem(REFRESH, control.value);
      watch();
    });
  }

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

  function age(seconds) {
    if (seconds < -1) return Vela.said("ahead", { span: span(-seconds) });
    return seconds < 0.95 ? Vela.words.justNow : Vela.said("ago", { span: span(seconds) });
  }

  function tick() {
    const now = Date.now();
    for (const time of document.querySelectorAll("time.ago")) {
      const seconds = (now - Date.parse(time.dateTime)) / 1000;
      const text = age(seconds);
      if (time.textContent !== text && !busy(time)) time.textContent = text;
    }
    if (isLost) {
      for (const part of streaming.querySelectorAll("[data-live]")) if (age_ms(part) >= POLL_MS) postponed.add(part);
    }
    release();
  }

  setInterval(tick, 1000);
})();
