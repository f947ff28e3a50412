// Curves. They are drawn in the colours of the page, and again when these change.

import { instant, tickDate, wallClock, zoneName } from "./instants.js";
import { LEVELS, duration, number } from "./words.js";

const STRIP = 6; // px
const APART = 12; // px between lines of events
const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];
/** Steps of an axis of durations, in s: such that read easily, as "5 min" beside "10 min". */
const DURATIONS = [
  ...[0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => days * DAY),
];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Is one value of a curve in sight? It is drawn as a point then: a line needs two. */
const isAlone = (plot, curve, first, last) => plot.data[curve].slice(first, last + 1).filter((value) => value !== null && value !== undefined).length === 1;

export class Chart {
  #box;
  #series;
  #data = [[]];
  #plot = null;
  #zoom;
  #around = {};

  /** series: [{ label, colour, scale, dash, points, stepped }]; scale `count` or `seconds`. */
  constructor(box, series, zoom = null) {
    this.#zoom = zoom; // called with the range that was dragged over, epoch s
    this.#box = box;
    this.#series = series;
    dark.addEventListener("change", () => this.#build());
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(box);
  }

  /**
   * data: [times in s, values …]; null is a gap, undefined none. `bands`: the status from each time on, a strip below;
   * `marks`: [{ at, strong }], lines.
   */
  show(data, around = {}) {
    this.#around = around;
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
    const seconds = this.#series.some((curve) => curve.scale === "seconds");
    const options = {
      ...this.#size(),
      tzDate: tickDate,
      cursor: { drag: { x: this.#zoom !== null, y: false, setScale: false } },
      hooks: {
        drawAxes: [(plot) => this.#behind(plot)],
        setSelect: [(plot) => this.#selected(plot)],
      },
      scales: { x: { range: () => aMinute(this.#data[0]) }, count: { range: from(this.#series.some((curve) => curve.zero)) }, ...(seconds && { seconds: { range: from(true) } }) },
      axes: [
        { ...line, values: times, space: 70, size: 34 },
        { ...line, scale: "count", size: 78, values: (_, all) => all.map(short) },
        ...(seconds ? [{ ...line, scale: "seconds", side: 1, size: 82, grid: { show: false }, incrs: DURATIONS, values: (_, all) => all.map(duration) }] : []),
      ],
      series: [
        { label: `Time (${zoneName((this.#data[0].at(-1) ?? Date.now() / 1000) * 1000)})`, value: (_, at) => (at === null ? "–" : instant(at * 1000)) },
        ...this.#series.map((curve) => ({
          label: curve.label,
          scale: curve.scale,
          stroke: colour(curve.colour),
          width: 2,
          dash: curve.dash,
          paths: curve.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
          points: { show: curve.points || isAlone, fill: colour("--card") },
          value: (_, value) => (value === null ? "–" : curve.scale === "seconds" ? duration(value) : number(value)),
        })),
      ],
    };
    this.#plot = new uPlot(options, this.#data, this.#box);
  }

  #selected(plot) {
    const { left, width } = plot.select;
    const [begin, end] = [left, left + width].map((at) => plot.posToVal(at, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false); // it would stay over another axis
    if (width > 4) this.#zoom?.(begin, end);
  }

  /** Verdicts as a strip along the bottom, and lines where something happened; below the curves. */
  #behind(plot) {
    const { ctx, bbox } = plot;
    const [times, { bands = [], marks = [] }] = [this.#data[0], this.#around];
    const x = (at) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(at, "x", true)));
    ctx.save();
    bands.forEach((status, index) => {
      ctx.fillStyle = colour(`--${LEVELS[status] ?? "unknown"}`);
      const [begin, end] = [x(times[index]), x(times[index + 1] ?? times[index])];
      ctx.fillRect(begin, bbox.top + bbox.height - STRIP, Math.max(1, end - begin), STRIP);
    });
    let drawn = -Infinity;
    for (const { at, strong } of marks) {
      if (at < plot.scales.x.min || at > plot.scales.x.max) continue;
      if (!strong && x(at) - drawn < APART) continue; // a hatch would hide the curves
      drawn = x(at);
      ctx.fillStyle = colour(strong ? "--text" : "--soft");
      ctx.fillRect(drawn, bbox.top, strong ? 2 : 1, bbox.height);
    }
    ctx.restore();
  }
}

/** From the first to the last of these times, a minute at least: uPlot shows years around a single one. */
function aMinute(times) {
  const [low, high] = times.length ? [times[0], times.at(-1)] : [0, 0];
  const room = Math.max(0, (60 - (high - low)) / 2);
  return [low - room, high + room];
}

const from = (zero) => (_, low, high) => {
  if (low === null || high === null) return [0, 1];
  const room = Math.max(1, (high - low) * 0.1);
  return [zero ? 0 : Math.max(0, low - room), high + room];
};

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const short = (value) => (Math.abs(value) < 100_000 ? number(value) : compact.format(value));

function times(plot, all) {
  const shown = plot.scales.x.max - plot.scales.x.min;
  const part = shown > 2 * 86_400 ? [5, 10] : shown < 600 ? [11, 19] : [11, 16]; // the date, or the time of the day
  return all.map((at) => wallClock(at * 1000).slice(...part));
}
