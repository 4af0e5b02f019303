// Times in the user's zone, for what scripts write.
"use strict";

const Vela = {
  zone: document.documentElement.dataset.zone,

  // 2026-01-31 09:30:00
  inZone(time_ms) {
    return new Date(time_ms).toLocaleString("sv-SE", { timeZone: this.zone });
  },
};
