// Decides when blocks are read again, requests them together, and updates ages. htmx's sse extension opens the stream.
"use strict";

(() => {
  const REFRESH = "vela_refresh";
  const POLL_MS = 5000;
  const postponed = new Set(); // blocks that changed while they could not be read
  const streaming = document.querySelector("[sse-connect]");
  const control = document.querySelector("[data-refresh]");
  let stream = null;
  let isLost = false;

  const pathOf = (address) => new URL(address, location.href).pathname;
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

  // --- Requests: one for all blocks that are due, answered with those that have changed ---------------------------

  const COLLECT_MS = 5; // an event reaches all blocks that follow it within this time
  const due = new Set(); // blocks that the next request asks for
  let asked = []; // the blocks of the request that is under way
  let isAsking = false; // while htmx sends that request
  let wasAnswered = false; // whether a block of this page has been read again
  let collecting = 0;

  function ask() {
    collecting = 0;
    if (asked.length || due.size === 0) return;
    asked = [...due];
    due.clear();
    const isOne = asked.length === 1;
    const address = new URL(asked[0].getAttribute("hx-get"), location.href);
    for (const part of asked.slice(1)) address.searchParams.append("part", part.id.replace(/^part-/, ""));
    isAsking = true;
    const answer = htmx.ajax("GET", address.pathname + address.search, {
      source: isOne ? asked[0] : streaming,
      swap: isOne ? "innerHTML" : "none",
      headers: { "If-None-Match": asked.map((part) => part.dataset.etag).join(", ") },
    });
    isAsking = false;
    answer.then(answered, answered);
  }

  function answered() {
    asked = [];
    ask();
  }

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (isAsking) return;
    const part = event.detail.elt;
    event.preventDefault();
    if (mayRead(part)) {
      postponed.delete(part);
      part.velaRead_ms = Date.now();
      due.add(part);
      collecting ||= setTimeout(ask, COLLECT_MS);
    } else {
      postponed.add(part);
    }
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target: part, xhr: reply, pathInfo } = event.detail;
    const isGone = wasAnswered && [403, 404].includes(reply.status); // deleted, or the user lost the role
    // A session that ended redirects to the login page, whose address a project may choose.
    const isRedirected = reply.status !== 304 && pathOf(reply.responseURL) !== pathOf(pathInfo.requestPath);
    if (isGone || isRedirected) {
      event.detail.shouldSwap = false;
      location.reload();
    } else if (event.detail.shouldSwap && part !== streaming) {
      event.detail.shouldSwap = maySwap(part, reply.getResponseHeader("ETag"));
    }
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    if (![200, 304].includes(event.detail.xhr.status)) return;
    wasAnswered = true;
    for (const part of asked) {
      if (postponed.has(part)) continue; // its answer was not shown
      for (const read of part.querySelectorAll("time.read")) read.dateTime = new Date().toISOString();
    }
  });

  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    event.detail.shouldSwap = maySwap(event.detail.target, event.detail.fragment.dataset.etag);
  });

  function maySwap(part, etag) {
    if (busy(part)) {
      postponed.add(part);
      return false;
    }
    part.dataset.etag = etag;
    // Remember the open details by name, the row selected by keyboard and the focused link, to restore them after the swap.
    part.velaSeen = {
      open: [...part.querySelectorAll("details[open][data-name]")].map((details) => details.dataset.name),
      row: [...part.querySelectorAll("[data-row]")].findIndex((row) => row.classList.contains("at")),
      focus: part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null,
    };
    return true;
  }

  document.addEventListener("htmx:afterSwap", () => {
    for (const part of document.querySelectorAll(".part")) {
      if (!part.velaSeen) continue;
      const { open, row, focus } = part.velaSeen;
      part.velaSeen = null;
      for (const details of part.querySelectorAll("details[data-name]")) details.open = open.includes(details.dataset.name);
      if (row >= 0) part.querySelectorAll("[data-row]")[row]?.classList.add("at");
      if (focus) part.querySelector(`[href="${CSS.escape(focus)}"]`)?.focus();
    }
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
    // The choice holds in all tabs, so each of them shows it.
    addEventListener("storage", (event) => {
      if (event.key !== REFRESH) return;
      control.value = mode();
      control.dispatchEvent(new Event("change"));
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
      if (time.textContent === text || busy(time)) continue;
      // A screen reader would read out the whole status again.
      if (time.closest('[role="status"]')) time.setAttribute("aria-hidden", "true");
      time.textContent = text;
    }
    if (isLost) {
      for (const part of streaming.querySelectorAll("[data-live]")) if (age_ms(part) >= POLL_MS) postponed.add(part);
    }
    release();
  }

  setInterval(tick, 1000);
})();
