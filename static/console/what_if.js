// Turns the field for a number of consumers into a slider. The page has a sentence for each number.
"use strict";

(() => {
  let chosen = ""; // by the user; when the block is read again, its field has another number

  function show(field) {
    const answer = JSON.parse(field.dataset.answers)[field.valueAsNumber - Number(field.min)];
    field.setAttribute("aria-valuetext", answer);
    field.form.querySelector("output").value = answer;
  }

  function enhance() {
    const field = document.querySelector("[data-what-if] input");
    if (!field || field.type === "range") return;
    field.type = "range";
    field.form.querySelector("button").remove();
    if (chosen) field.value = chosen;
    show(field);
  }

  document.addEventListener("input", (event) => {
    if (!event.target.matches("[data-what-if] input")) return;
    chosen = event.target.value;
    show(event.target);
  });
  document.addEventListener("htmx:afterSwap", enhance);
  enhance();
})();
