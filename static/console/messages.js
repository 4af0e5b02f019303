// Shows the message of the focused row beside the list, so that j and k walk through messages. Without this script a
// row's link opens the message's page.
"use strict";

(() => {
  const detail = document.getElementById("detail");
  if (!detail) return;
  const WAIT_MS = 120; // while a user keeps j or k pressed, read only the row at which they stop
  let timer = 0;
  let reading = null;

  async function show(link) {
    reading = new AbortController();
    const address = new URL(link.href);
    address.searchParams.set("part", "message");
    try {
      const reply = await fetch(address, { signal: reading.signal, headers: { "HX-Request": "true" } });
      if (reply.redirected) { // the session ended: show the login page
        location.reload();
        return;
      }
      if (!reply.ok) throw new Error(String(reply.status));
      detail.innerHTML = await reply.text();
    } catch (error) {
      if (error.name === "AbortError") return;
      detail.textContent = detail.dataset.failed;
    }
    detail.dataset.of = link.href;
    detail.hidden = false;
  }

  function stop() {
    clearTimeout(timer);
    reading?.abort();
  }

  document.addEventListener("focusin", (event) => {
    const link = event.target.closest?.("a[data-message]");
    if (!link) return;
    stop();
    if (detail.dataset.of !== link.href) timer = setTimeout(() => show(link), WAIT_MS);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.target.matches?.("input, select, textarea")) {
      stop();
      detail.hidden = true;
      delete detail.dataset.of;
    }
  });
})();
