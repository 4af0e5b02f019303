// Times in the user's zone and words in the user's language, for the texts that scripts write.
"use strict";

const Vela = {
  zone: document.documentElement.dataset.zone,

  // The texts that the page has translated: the attributes of its elements with data-texts. "{span}" stands for a value.
  words: Object.assign({}, ...[...document.querySelectorAll("[data-texts]")].map((each) => each.dataset)),

  said(name, values) {
    return this.words[name].replace(/\{(\w+)\}/g, (_, value) => values[value]);
  },

  // 2026-01-31 09:30:00
  inZone(time_ms) {
    return new Date(time_ms).toLocaleString("sv-SE", { timeZone: this.zone });
  },
};
