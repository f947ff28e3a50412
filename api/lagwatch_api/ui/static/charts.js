// Curves. They are drawn in the colours of the page, and again when these change.

import { duration, instant, number } from "./words.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");

export class Chart {
  #box;
  #series;
  #data = [[]];
  #plot = null;

  /** series: [{ label, colour, scale, dash, points }]; scale `count` or `seconds`. */
  constructor(box, series) {
    this.#box = box;
    this.#series = series;
    dark.addEventListener("change", () => this.#build());
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(box);
  }

  /** data: [times in s, values …]; null is a gap. */
  show(data) {
    this.#data = data;
    if (this.#plot) this.#plot.setData(data);
    else this.#build();
  }

  clear() {
    this.#plot?.destroy();
    this.#plot = null;
  }

  #size() {
    return { width: Math.max(200, this.#box.clientWidth), height: 220 };
  }

  #build() {
    this.clear();
    const line = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const seconds = this.#series.some((one) => one.scale === "seconds");
    const options = {
      ...this.#size(),
      cursor: { drag: { x: false, y: false } },
      scales: { count: { range: from(this.#series.some((one) => one.zero)) }, ...(seconds && { seconds: { range: from(true) } }) },
      axes: [
        { ...line, values: times, space: 70, size: 34 },
        { ...line, scale: "count", size: 78, values: (_, all) => all.map(short) },
        ...(seconds ? [{ ...line, scale: "seconds", side: 1, size: 66, grid: { show: false }, values: (_, all) => all.map(span) }] : []),
      ],
      series: [
        { value: (_, at) => (at === null ? "–" : instant(at * 1000)) },
        ...this.#series.map((one) => ({
          label: one.label,
          scale: one.scale,
          stroke: colour(one.colour),
          width: 2,
          dash: one.dash,
          points: { show: one.points },
          value: (_, value) => (value === null ? "–" : one.scale === "seconds" ? duration(value) : number(value)),
        })),
      ],
    };
    this.#plot = new uPlot(options, this.#data, this.#box);
  }
}

const from = (zero) => (_, low, high) => {
  if (low === null || high === null) return [0, 1];
  const room = Math.max(1, (high - low) * 0.1);
  return [zero ? 0 : Math.max(0, low - room), high + room];
};

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const short = (value) => (Math.abs(value) < 100_000 ? number(value) : compact.format(value));
const span = (value) =>
  value < 120 ? `${+value.toFixed(1)} s` : value < 7200 ? `${+(value / 60).toFixed(1)} min` : `${+(value / 3600).toFixed(1)} h`;

function times(plot, all) {
  const shown = plot.scales.x.max - plot.scales.x.min;
  const clock = { hour: "2-digit", minute: "2-digit", ...(shown < 600 && { second: "2-digit" }) };
  return all.map((at) => {
    const date = new Date(at * 1000);
    return shown > 2 * 86_400 ? date.toLocaleDateString("sv-SE").slice(5) : date.toLocaleTimeString("en-GB", clock);
  });
}
