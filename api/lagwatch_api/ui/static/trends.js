// The lag of the groups on the screen over the last hour: a small curve, and where it is going.

import { ask } from "./ask.js";
import { rate } from "./words.js";

const EVERY_MS = 30_000;
const SOON_MS = 2_000; // where the status has changed
const WAIT_MS = 150; // scrolling goes on: ask for what it ends at
const MOST = 50; // of one question, so that its address stays short
const WIDTH = 56;
const HEIGHT = 20;
const SVG = "http://www.w3.org/2000/svg";

export class Trends {
  #found = new Map(); // key → { askedAt, status, lags, speed, cause, unknown, quiet, lost, lostIs }
  #listener;
  #timer = 0;

  /** `listener` is called when something came. */
  constructor(listener) {
    this.#listener = listener;
  }

  /** What is known of a group; undefined while nothing is. Why it was in another status says nothing of this one. */
  of(entry) {
    const known = this.#found.get(entry.key);
    if (known === undefined || known.status === entry.status) return known;
    return { ...known, cause: undefined, unknown: undefined, quiet: undefined };
  }

  /** These groups are on the screen. */
  want(groups) {
    const now = performance.now();
    const old = groups.filter((entry) => {
      const known = this.#found.get(entry.key);
      return known === undefined || !(now - known.askedAt < (known.status === entry.status ? EVERY_MS : SOON_MS));
    });
    clearTimeout(this.#timer);
    if (old.length) this.#timer = setTimeout(() => this.#ask(old), WAIT_MS);
  }

  async #ask(groups) {
    const byCluster = Map.groupBy(groups, (entry) => entry.cluster);
    for (const [cluster, all] of byCluster) {
      for (let at = 0; at < all.length; at += MOST) await this.#some(cluster, all.slice(at, at + MOST));
    }
    this.#listener();
  }

  async #some(cluster, groups) {
    const askedAt = performance.now();
    // an answer of before goes on counting for the status that it was of
    for (const entry of groups) this.#found.set(entry.key, { status: entry.status, ...this.#found.get(entry.key), askedAt });
    const query = new URLSearchParams(groups.map((entry) => ["group", entry.group]));
    try {
      const answer = await ask(`api/v1/clusters/${encodeURIComponent(cluster)}/trends?${query}`);
      for (const entry of groups) this.#found.set(entry.key, { askedAt, status: entry.status, lags: answer.groups[entry.group] ?? [], speed: answer.speeds[entry.group], cause: answer.causes[entry.group], unknown: answer.unknown[entry.group], quiet: answer.quiet[entry.group], lost: answer.lost[entry.group], lostIs: answer.lost_is?.[entry.group] });
    } catch {
      // the next time
    }
  }
}

/**
 * `+12/s`, `steady`, `−3/s`; "" when it is not known. The lag of a group that is OK goes up and down: what
 * chance explains, and less than a hundredth of what it reads, is no trend.
 */
export function trend({ speed } = {}, status = "") {
  const perS = speed?.lag_trend_per_s ?? null;
  if (perS === null) return "";
  const fine = status === "OK";
  const wobble = fine ? (speed.consumed_per_s ?? 0) / 100 : 0;
  if (fine && speed.steady || Math.abs(perS) < Math.max(0.005, wobble)) return "steady";
  return `${perS > 0 ? "+" : "−"}${rate(Math.abs(perS))}`;
}

export function sparkline() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("class", "spark");
  svg.setAttribute("aria-hidden", "true"); // the trend beside it says the same
  svg.append(document.createElementNS(SVG, "path"));
  return svg;
}

/** Draw lags into a sparkline, from 0 up; gaps stay gaps. */
export function draw(svg, { lags = [] } = {}) {
  const most = Math.max(1, ...lags.map((lag) => lag ?? 0));
  let pen = "M";
  const steps = lags.map((lag, index) => {
    if (lag === null) return (pen = "M"), "";
    const x = (index / Math.max(1, lags.length - 1)) * (WIDTH - 2) + 1;
    const y = HEIGHT - 2 - (lag / most) * (HEIGHT - 4);
    // a point between gaps would not be seen: give it a length
    const step = `${pen}${x.toFixed(1)} ${y.toFixed(1)}${pen === "M" ? "h0.5" : ""}`;
    pen = "L";
    return step;
  });
  const path = steps.join("");
  svg.toggleAttribute("data-empty", !path);
  if (svg.firstChild.getAttribute("d") !== path) svg.firstChild.setAttribute("d", path);
}
