// Shows notices if the broker, Celery, the database or the console is in trouble. The live stream brings the console's
// findings every 2 s. If the stream is silent, this script asks the console, and finds out what does not answer.
"use strict";

(() => {
  const ASK_AFTER_MS = 3500;
  const ANSWER_MS = 1500;
  const EFFECTS = ["unsure", "unread"];
  const place = document.querySelector("[data-notices]");
  const own = new Map([...document.querySelectorAll("template[data-own]")].map((each) => [each.dataset.own, each]));
  if (own.size === 0) return;

  let heard_ms = Date.now(); // when the console was last heard
  let ticked_ms = Date.now();
  let isAsking = false;
  let shown = null; // the notices that are shown; null: those that the page came with

  const has = (effect) => document.body.classList.contains(effect);

  function show(finding, key) {
    if (key === shown) return;
    const were = EFFECTS.map(has).join();
    shown = key;
    place.replaceChildren(finding.notices);
    for (const effect of EFFECTS) document.body.classList.toggle(effect, finding.effects.includes(effect));
    if (finding.since_ms) {
      for (const time of document.querySelectorAll("time.since")) time.dateTime = new Date(finding.since_ms).toISOString();
    }
    if (were !== EFFECTS.map(has).join()) document.dispatchEvent(new Event("vela:reread"));
  }

  // --- What the console says -------------------------------------------------------------------------------------

  function hear(said) {
    heard_ms = Date.now();
    const template = document.createElement("template");
    template.innerHTML = said.html;
    for (const time of template.content.querySelectorAll("time[data-at]")) {
      time.textContent = Vela.inZone(time.dateTime).slice(-time.textContent.length); // the stream sends UTC to everybody
    }
    show({ ...said, notices: template.content }, JSON.stringify(said));
  }

  document.addEventListener("vela:health", (event) => hear(event.detail));

  // --- What the page finds out by itself -------------------------------------------------------------------------

  function find(name) {
    const template = own.get(name);
    const notices = template.content.cloneNode(true);
    for (const time of notices.querySelectorAll("time")) time.dateTime = new Date(heard_ms).toISOString();
    notices.querySelector("[data-clock]").textContent = Vela.inZone(heard_ms).slice(11, 19);
    show({ notices, effects: template.dataset.effects.split(" "), since_ms: heard_ms }, `${name} ${heard_ms}`);
  }

  const get = (address) => fetch(address, { signal: AbortSignal.timeout(ANSWER_MS), cache: "no-store", redirect: "manual" });

  async function ask() {
    isAsking = true;
    document.dispatchEvent(new Event("vela:silence"));
    const asked_ms = heard_ms;
    const [finding, life] = await Promise.allSettled([get(place.dataset.ask), get("/healthz")]);
    isAsking = false;
    if (heard_ms !== asked_ms || document.hidden) return; // the stream came back in between
    if (finding.value?.type === "opaqueredirect") location.reload(); // the session has ended
    else if (finding.value?.ok) {
      hear(await finding.value.json());
      document.dispatchEvent(new Event("vela:answer"));
    } else find(life.status === "fulfilled" ? "database" : "console");
  }

  setInterval(() => {
    const now = Date.now();
    if (document.hidden || now - ticked_ms > 3000) heard_ms = now; // nobody looked, or the computer slept
    ticked_ms = now;
    if (!isAsking && now - heard_ms > ASK_AFTER_MS) ask();
  }, 500);
})();
