// Draws the charts of a page from the console's API, and keeps them current.
"use strict";

(() => {
  const root = document.querySelector("[data-history]");
  if (!root) return;

  const GAP = "\u202f";
  const LEAST_PAUSE_S = 10;
  const MOST_PAUSE_S = 60;
  const ANSWER_MS = 30_000; // after this time the page says that it got no answer, and asks again
  const HEIGHT = 150;
  const note = root.querySelector("[data-history-note]");
  const age = root.querySelector("[data-history-age]"); // outside the note, which a screen reader would read out every second
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // --- Numbers ---------------------------------------------------------------------------------------------------

  const UNKNOWN = "–";
  const count = (value) => (value == null ? UNKNOWN : String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, GAP));
  const rate = (value) => {
    if (value == null) return UNKNOWN;
    if (value >= 99.5) return `${count(value)}/s`;
    return value >= 0.05 ? `${value.toFixed(1)}/s` : "0/s";
  };
  const size = (value) => {
    if (value == null) return UNKNOWN;
    const units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let unit = 0;
    for (; value >= 999.5 && unit < units.length - 1; unit += 1) value /= 1000;
    return `${value.toFixed(unit === 0 || value >= 99.95 ? 0 : 1)}${GAP}${units[unit]}`;
  };
  const latency = (value) => {
    if (value == null) return UNKNOWN;
    if (value < 1000) return `${Math.round(value)}${GAP}ms`;
    if (value < 99_500) return `${(value / 1000).toFixed(value < 9950 ? 1 : 0)}${GAP}s`;
    const minutes = Math.round(value / 60_000);
    if (minutes < 100) return `${minutes}${GAP}min`;
    const hours = Math.floor(minutes / 60);
    const rest = minutes % 60;
    if (hours < 48) return rest ? `${hours}${GAP}h ${rest}${GAP}min` : `${hours}${GAP}h`;
    return `${Math.round(hours / 24)}${GAP}d`;
  };
  const shortLatency = (value) => (value < 6_000_000 ? latency(value) : `${(value / 3_600_000).toFixed(1)}${GAP}h`); // fits beside the chart
  const short = (value) => (value >= 10_000 ? size(value).replace(/B$/, "") : String(Number(value.toFixed(6))));

  // --- Charts ----------------------------------------------------------------------------------------------------

  // Messages, bytes and milliseconds have no fractions, so neither do the numbers beside their charts.
  const WHOLE = [0, 3, 6, 9, 12, 15].flatMap((power) => [1, 2, 5, 10, 20, 50, 100, 200, 500].map((step) => step * 10 ** power));

  // Lines also differ in their dashes, so that colour is never the only sign.
  const CHARTS = {
    backlog: {
      write: count,
      axis: short,
      steps: WHOLE,
      lines: [{ label: Vela.words.backlog, key: "backlog_most_messages", colour: "--accent", fill: "--accent-soft" }],
    },
    rates: {
      write: rate,
      axis: (value) => `${short(value)}/s`,
      lines: [
        { label: Vela.words.in, key: "message_rate_in", colour: "--accent" },
        { label: Vela.words.out, key: "message_rate_out", colour: "--flight", dash: [8, 4] },
        { label: Vela.words.acked, key: "message_rate_acked", colour: "--good", dash: [2, 3] },
        { label: Vela.words.redelivered, key: "message_rate_redelivered", colour: "--bad", dash: [8, 3, 2, 3] },
      ],
    },
    acks: {
      write: latency,
      axis: shortLatency,
      steps: WHOLE,
      lines: [
        { label: Vela.words.ack_p50_ms, key: "ack_p50_ms", colour: "--accent" },
        { label: Vela.words.ack_p95_ms, key: "ack_p95_ms", colour: "--flight", dash: [8, 4] },
        { label: Vela.words.ack_p99_ms, key: "ack_p99_ms", colour: "--bad", dash: [8, 3, 2, 3] },
      ],
    },
    stored: {
      write: size,
      axis: size,
      steps: WHOLE,
      lines: [{ label: Vela.words.stored, key: "stored_bytes", colour: "--soft", fill: "--sunken" }],
    },
  };

  function options(chart, width, history) {
    const lines = chart.lines.map((line) => ({
      label: line.label,
      stroke: colour(line.colour),
      fill: line.fill && colour(line.fill),
      dash: line.dash,
      width: 1.5,
      // A known number between two unknown ones makes no line, so it is drawn as a point.
      points: { show: true, filter: (plot, series) => lonely(plot.data[series]), size: 5, fill: colour(line.colour) },
      paths: uPlot.paths.stepped({ align: 1 }),
      value: (plot, value, number, at) => chart.write(at == null ? latest(plot.data[number]) : value),
    }));
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    return {
      width,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), Vela.zone),
      // uPlot stops a click during which the pointer or the page moved by a pixel: it takes the click for a drag.
      cursor: {
        sync: { key: "history" },
        drag: { x: false, y: false, click: () => {} },
        dataIdx: (plot, _, nearest, seconds) => stepAt(plot.data[0], nearest, seconds),
      },
      scales: {
        x: { range: () => [history.from_ms / 1000, history.to_ms / 1000] },
        y: { range: (_, least, most) => [0, most > 0 ? most * 1.1 : 1] },
      },
      axes: [
        { ...axis, size: 32, values: (_, moments, __, ___, step_s) => moments.map((seconds) => tick(seconds, step_s)) },
        {
          ...axis,
          size: 58,
          incrs: chart.steps,
          splits: (plot, _, least, most, step) => (isEmpty(plot) ? [least, most] : multiples(least, most, step)),
          values: (plot, values) => values.map((value) => (isEmpty(plot) ? "" : chart.axis(value))),
        },
      ],
      series: [{ label: Vela.words.time, value: (plot, value, _, at) => clock(at == null ? latest(plot.data[0]) : value) }, ...lines],
      hooks: { draw: [drawActs] },
    };
  }

  // The step whose line is drawn at this time. uPlot gives the step whose beginning is nearest.
  const stepAt = (begins, nearest, seconds) => (begins[nearest] > seconds ? Math.max(nearest - 1, 0) : nearest);

  // While nobody points at a chart, its legend has the latest numbers.
  const latest = (line) => line.findLast((value) => value != null);
  const isEmpty = (plot) => plot.data.slice(1).every((line) => line.every((value) => value == null));
  const lonely = (line) => [...line.keys()].filter((at) => line[at] != null && line[at - 1] == null && line[at + 1] == null);
  const multiples = (least, most, step) => Array.from({ length: Math.floor((most - least) / step) + 1 }, (_, at) => least + at * step);

  const tick = (seconds, step_s) => {
    const iso = Vela.inZone(seconds * 1000);
    if (step_s >= 86_400) return iso.slice(5, 10);
    return step_s >= 60 ? iso.slice(11, 16) : iso.slice(11, 19);
  };
  const clock = (seconds) => (seconds == null ? UNKNOWN : Vela.inZone(seconds * 1000).slice(5));

  // A line and an arrowhead for each act.
  function drawActs(plot) {
    const { ctx, bbox } = plot;
    const size_px = 4 * devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--warn");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const act of shown.acts) {
      const x = plot.valToPos(act.at_ms / 1000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x - size_px, bbox.top);
      ctx.lineTo(x + size_px, bbox.top);
      ctx.lineTo(x, bbox.top + 2 * size_px);
      ctx.fill();
    }
    ctx.restore();
  }

  let shown = null; // the answer that is drawn
  const plots = new Map(); // by element

  function columns(chart) {
    const steps = shown.steps;
    return [steps.map((step) => step.at_ms / 1000), ...chart.lines.map((line) => steps.map((step) => step[line.key]))];
  }

  function draw(isAnew) {
    for (const element of root.querySelectorAll("[data-chart]")) {
      const chart = CHARTS[element.dataset.chart];
      const plot = plots.get(element);
      if (plot && !isAnew) {
        plot.setData(columns(chart));
        sayIfEmpty(element, plot);
        continue;
      }
      plot?.destroy();
      const drawn = new uPlot(options(chart, element.clientWidth, frame), columns(chart), element);
      if (root.dataset.past) drawn.over.addEventListener("click", (event) => lookBack(drawn, event));
      plots.set(element, drawn);
      sayIfEmpty(element, drawn);
    }
    root.dataset.drawn = shown.to_ms;
  }

  // An empty chart is a frame with a sentence. Screen readers get the sentence as a description of its element.
  function sayIfEmpty(element, plot) {
    plot.over.querySelector(".chart-empty")?.remove();
    element.removeAttribute("aria-description");
    if (!isEmpty(plot)) return;
    const sentence = document.createElement("p");
    sentence.className = "chart-empty";
    sentence.textContent = Vela.words.empty;
    plot.over.append(sentence);
    element.setAttribute("aria-description", Vela.words.empty);
  }

  function lookBack(plot, click) {
    const { left, width } = plot.over.getBoundingClientRect(); // uPlot's cursor may not know yet that the page has scrolled
    const x = click.clientX - left;
    const atEdge = x <= 1 || x >= width - 1; // uPlot moves its cursor from the outermost pixel to the edge
    const seconds = plot.posToVal(atEdge ? Math.round(x / width) * width : x, "x");
    const step = shown.steps[stepAt(plot.data[0], plot.valToIdx(seconds), seconds)];
    if (step) location.assign(`${root.dataset.past}?at=${new Date(step.at_ms).toISOString()}&step=${shown.step_s}`);
  }

  // A chart keeps its options, so its scales read the times of the latest answer here.
  const frame = {
    get from_ms() {
      return shown.from_ms;
    },
    get to_ms() {
      return shown.to_ms;
    },
  };

  new ResizeObserver(() => {
    for (const [element, plot] of plots) if (element.clientWidth) plot.setSize({ width: element.clientWidth, height: HEIGHT });
  }).observe(root);
  dark.addEventListener("change", () => shown && draw(true));

  // --- Reading: at most every 10 s, and after the first time only while the page is visible ----------------------

  let readAt_ms = 0;
  let isReading = false; // never two requests at once, because the older answer could come last
  const mode = () => localStorage.getItem("vela_refresh") || "live";
  const pause_s = () => Math.max(Math.min(Math.max(shown?.step_s ?? 0, LEAST_PAUSE_S), MOST_PAUSE_S), Number(mode()) || 0);

  function say(text) {
    if (note.textContent !== text) note.textContent = text;
    if (shown) {
      const time = document.createElement("time");
      time.className = "ago";
      time.dateTime = new Date(shown.to_ms).toISOString();
      const seconds = Math.max(Math.round((Date.now() - shown.to_ms) / 1000), 0);
      time.textContent = Vela.said("ago", { span: `${seconds}${GAP}s` }); // live.js keeps it current
      const [before, after] = Vela.words.counted.split("{time}");
      age.replaceChildren(before, time, after);
    }
  }

  async function read() {
    readAt_ms = Date.now();
    isReading = true;
    try {
      const answer = await fetch(root.dataset.history, { signal: AbortSignal.timeout(ANSWER_MS) });
      if (!answer.ok) throw new Error(Vela.said("answered", { status: answer.status }));
      shown = await answer.json();
    } catch (error) {
      say(Vela.said("unread", { reason: error.message, pause: pause_s() }));
      return;
    } finally {
      isReading = false;
    }
    draw(plots.size === 0);
    say("");
    const table = document.getElementById("part-history_table");
    if (table?.querySelector("details[open]")) htmx.trigger(table, "refresh");
  }

  function look() {
    const isFirst = readAt_ms === 0;
    const isPaused = mode() === "off" && shown; // without numbers even a paused page tries again
    const isDue = !isReading && !isPaused && !document.hidden && Date.now() - readAt_ms >= pause_s() * 1000;
    if (isFirst || isDue) read();
  }

  look();
  setInterval(look, 1000);
})();
