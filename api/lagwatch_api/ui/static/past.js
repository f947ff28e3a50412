// A group over time: lag, time lag, verdicts and what happened, on one axis.

import { ask } from "./ask.js";
import { Chart } from "./charts.js";
import { instant, msOf, wallClock, zoneName } from "./instants.js";
import { go, read } from "./place.js";
import { duration, make, number, say } from "./words.js";

const RANGES = { "1h": "last hour", "6h": "last 6 hours", "24h": "last day", "7d": "last 7 days", "30d": "last 30 days" };
const USUAL = "6h";
const WIDER = "7d"; // looked at by itself when the usual range is empty
const PAGE = 1000; // events
const MOST_PAGES = 5;
const LISTED = 30;
const NEAR = 2; // points that say how many samples are usual
const ENOUGH = 4; // samples of a point: of fewer one may be late
const LATE = 1.5; // groups have a sample in each round: one that comes so many times as late as usual is missing
const LATE_PARTITION = 4; // partitions that do not change have fewer
const BEFORE_S = 0.001; // of the next step
const AROUND = 4; // distances on each side that say what is usual
const HINT = "The strip below the curves is the verdict; lines are events. Drag over the curves to zoom.";
const $ = (id) => document.getElementById(id);

const EVENTS = {
  rebalance: "rebalance", rebalance_storm: "rebalance storm", member_joined: "member joined", member_left: "member left",
  static_member_away: "static member away", static_member_back: "static member back", unassigned: "partition without a member",
  assigned: "partition has a member again", assignor: "assignor changed", protocol: "protocol changed", offsets_reset: "offsets reset",
  topic_recreated: "topic made anew", partitions_added: "partitions added", deployment: "deployment", recording: "recording",
  records_lost: "messages lost", group_status: "verdict", job: "job",
};

export class Past {
  #path;
  #chart;

  /** `path` of the group's routes. */
  constructor(path) {
    this.#path = path;
  }

  section() {
    const asked = read();
    const range = make("select", { id: "range", onchange: () => go({ range: $("range").value, from: "", to: "" }, { replace: true }) },
      ...Object.entries(RANGES).map(([value, word]) => make("option", { value }, word)), make("option", { value: "own" }, "from … to …"));
    range.value = asked.from ? "own" : (asked.range in RANGES ? asked.range : USUAL);
    const own = () => $("from").value && go({ range: "own", from: $("from").value, to: $("to").value }, { replace: true });
    const curve = make("select", { id: "curve", onchange: () => go({ curve: $("curve").value }, { replace: true }) },
      make("option", { value: "" }, "whole group"), make("option", { value: "partition" }, "chosen partition"));
    curve.value = asked.curve ?? "";
    const box = make("div", { class: "chart", id: "g-past", role: "img", "aria-label": "Lag and time lag over time" });
    this.#chart = new Chart(box, [
      { label: "lag", colour: "--link", scale: "count", zero: true, stepped: true },
      { label: "time lag", colour: "--second", scale: "seconds", dash: [6, 4], stepped: true },
    ], zoom);
    return make("section", { class: "card", id: "past", "aria-labelledby": "h-past" },
      make("h3", { id: "h-past" }, "Lag and time lag over time"),
      make("div", { class: "tools" },
        make("label", {}, "Range", range),
        make("label", { class: "own" }, `From (${zoneName()})`, make("input", { id: "from", type: "datetime-local", step: "1", value: asked.from, onchange: own })),
        make("label", { class: "own" }, `To (${zoneName()})`, make("input", { id: "to", type: "datetime-local", step: "1", value: asked.to, onchange: own })),
        make("label", {}, "Of", curve),
        make("button", { type: "button", id: "unzoom", onclick: () => go({ range: "", from: "", to: "" }, { replace: true }) }, "Whole range")),
      make("p", { class: "empty", id: "g-past-said", role: "status" }, "Asking …"),
      box,
      make("p", { class: "empty", id: "g-past-hint" }, HINT),
      make("ol", { class: "list events", id: "g-events", "aria-label": "What happened" }));
  }

  clear() {
    this.#chart?.clear();
  }

  /** Ask anew and draw; `current` says whether the answer is still wanted. */
  async load(current) {
    const asked = read();
    const own = asked.range === "own" && Boolean(asked.from);
    this.#controls(asked, own);
    const part = asked.curve === "partition" && asked.partition ? `/topics/${encodeURIComponent(asked.topic)}/partitions/${asked.partition}` : "";
    const curve = (query) => ask(`${this.#path()}${part}/history?${query}`);
    try {
      let query = own ? between(asked) : since(asked.range in RANGES ? asked.range : USUAL);
      const whole = (points) => (known(points).length ? points : []); // who zooms in on a hole shall see it
      let points = (own ? whole : known)((await curve(query)).points);
      if (!points.length && !own && !(asked.range in RANGES)) {
        query = since(WIDER);
        points = known((await curve(query)).points);
      }
      const events = await this.#events(query);
      if (current()) this.#show(points, events);
    } catch (error) {
      if (!current()) return;
      // an unknown group may have a past in another range; without a history there are only events
      if (error.status === 404 && !error.message.includes("is not known")) await this.#withoutHistory(current);
      else say($("g-past-said"), `The history cannot be read: ${error.message}`);
    }
  }

  #controls(asked, own) {
    const shown = own || asked.range === "own" ? "own" : (asked.range in RANGES ? asked.range : USUAL);
    if ($("range").value !== shown && !(asked.range === undefined && $("range").value === "own")) $("range").value = shown;
    for (const label of document.querySelectorAll(".own")) label.hidden = $("range").value !== "own";
    for (const id of ["from", "to"]) if (own) $(id).value = asked[id] ?? "";
    $("unzoom").hidden = !own;
  }

  /** Of the history, and the newest from memory: they are not in it yet, or come after its last page. */
  async #events(query) {
    const found = [];
    try {
      let [wanted, begin_ms, end_ms] = [query, null, null];
      for (let page = 0; wanted && page < MOST_PAGES; page++) {
        const { about, points, next } = await ask(`${this.#path()}/events?${wanted}&limit=${PAGE}`);
        found.push(...points);
        begin_ms = points.at(-1)?.at_ms ?? begin_ms ?? about.from_ms;
        end_ms = about.to_ms;
        wanted = next === null ? null : new URLSearchParams({ from: next, to: end_ms });
      }
      const { points } = await ask(`${this.#path()}/events?source=memory`);
      found.push(...points.filter((event) => begin_ms < event.at_ms && event.at_ms <= end_ms));
    } catch {
      // the curves are there all the same
    }
    return found.filter((event) => event.event in EVENTS);
  }

  /** A server that keeps no history has the newest events in memory. */
  async #withoutHistory(current) {
    const events = await this.#events("source=memory");
    if (!current()) return;
    say($("h-past"), "What happened");
    say($("g-past-said"), events.length ? "" : "Nothing happened since lagwatch started. It keeps no history.");
    for (const id of ["g-past", "g-past-hint"]) $(id).hidden = true;
    document.querySelector("#past .tools").hidden = true;
    this.#list(events);
  }

  /** A point is of the time that begins with it. */
  #show(points, events) {
    $("g-past").hidden = points.length === 0;
    say($("g-past-said"), points.length ? "" : "Nothing was recorded in this time.");
    if (!points.length) this.clear();
    else {
      const marks = events.filter((event) => event.event !== "group_status");
      const between = betweenSamples(points, $("curve").value === "partition" ? LATE_PARTITION : LATE);
      const empty = between.map((is) => (is ? undefined : null)); // the line goes on, or ends
      const times = points.map((point) => point.at_ms / 1000);
      const step = points.length > 1 ? times[1] - times[0] : 0;
      const end = Math.max(times.at(-1), Math.min(times.at(-1) + step, Date.now() / 1000));
      const verdicts = bands(points, between);
      const steps = withWidth(points.map((point, nth) => ({
        at: times[nth],
        lag: point.lag_max ?? point.total_lag ?? point.lag ?? empty[nth],
        late: point.time_lag_max_s ?? point.time_lag_s ?? empty[nth],
        verdict: verdicts[nth],
      })));
      const lasts = (name) => [...steps, steps.at(-1)].map((each) => each[name]); // the last step has its width, too
      say($("g-past-hint"), step ? `Each step is the most of ${duration(step)}. ${HINT}` : HINT);
      this.#chart.show(
        [
          [...steps.map(({ at }) => at), end],
          lasts("lag"),
          lasts("late"),
        ],
        { bands: steps.map(({ verdict }) => verdict), marks: marks.map((event) => ({ at: event.at_ms / 1000, strong: event.event === "deployment" })) },
      );
    }
    this.#list(events);
  }

  #list(events) {
    const newest = folded(events).slice(-LISTED).reverse();
    $("g-events").replaceChildren(...newest.map((line) => make("li", { class: line.strong ? "strong" : "" }, `${instant(line.at_ms)} · ${line.text}${repeated(line)}`)));
    $("g-events").hidden = !newest.length;
  }
}

/** Without the empty points before and after what was recorded: a grid has them, too. */
function known(points) {
  const has = (point) => [point.lag_max, point.total_lag, point.lag, point.status].some((value) => value !== null && value !== undefined);
  return points.slice(Math.max(0, points.findIndex(has)), points.findLastIndex(has) + 1);
}

/**
 * The verdict from each point on; UNKNOWN where nothing was recorded, or more than a quarter is missing.
 * The first and the last point may have begun before the time that is shown, or go on.
 */
export function bands(points, between = betweenSamples(points)) {
  const few = ({ samples }, nth) => {
    const near = points.slice(Math.max(0, nth - NEAR), nth + NEAR + 1).map((point) => point.samples ?? 0);
    const around = near.filter((count) => count > 0).sort((a, b) => a - b);
    const usual = around[Math.floor(around.length / 2)] ?? 0; // a change of the verdict is a sample more
    return usual >= ENOUGH && samples * 4 < usual * 3 && nth > 0 && nth < points.length - 1;
  };
  let last = "UNKNOWN";
  return points.map((point, nth) => {
    if (!between[nth]) last = point.status && !few(point, nth) ? point.status : "UNKNOWN";
    return last;
  });
}

/** With a second point at the end of each step that a hole follows: the line would end where the step begins. */
export function withWidth(steps) {
  return steps.flatMap((step, nth) => {
    const next = steps[nth + 1];
    const ends = next && ["lag", "late"].some((name) => step[name] !== null && step[name] !== undefined && next[name] === null);
    return ends ? [step, { ...step, at: next.at - BEFORE_S }] : [step];
  });
}

/** Which points have no sample only because samples are further apart than points. */
export function betweenSamples(points, late = LATE) {
  const recorded = points.flatMap(({ status }, nth) => (status ? [nth] : []));
  const steps = recorded.slice(1).map((nth, place) => nth - recorded[place]);
  const usual = (place) => lowerMiddle(steps.slice(Math.max(0, place - AROUND), place + AROUND + 1));
  const found = points.map(() => false);
  recorded.slice(1).forEach((next, place) => {
    const before = recorded[place];
    if (next - before <= Math.max(1, late * usual(place))) found.fill(true, before + 1, next);
  });
  return found;
}

/** The middle one; of two the smaller: of two distances one may be a hole. */
function lowerMiddle(values) {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}

function sentenceOf(event) {
  const word = EVENTS[event.event];
  const change = event.before && event.after ? ` ${event.before} → ${event.after}` : event.after ? ` ${event.after}` : "";
  const where = event.topic ? ` ${event.topic}${event.partition === null ? "" : `/${event.partition}`}` : "";
  const count = event.event === "deployment" ? ` (${number(event.count)} partitions)` : ` × ${event.count}`;
  return `${word}${where}${change}${event.count > 1 ? count : ""}`;
}

/** Events of which the same was said right before become one: the newest, with how often and since when. */
function folded(events) {
  const lines = [];
  for (const event of events) {
    const [text, last] = [sentenceOf(event), lines.at(-1)];
    if (last?.text === text) Object.assign(last, { at_ms: event.at_ms, times: last.times + 1 });
    else lines.push({ text, at_ms: event.at_ms, first_ms: event.at_ms, times: 1, strong: event.event === "deployment" });
  }
  return lines;
}

const repeated = ({ times, first_ms }) => (times > 1 ? ` (${number(times)} times since ${instant(first_ms)})` : "");

const since = (range) => new URLSearchParams({ from: `-${range}`, to: "now" });
const iso = (text) => new Date(msOf(text)).toISOString();
const between = ({ from, to }) => new URLSearchParams({ from: iso(from), to: to ? iso(to) : "now" });

/** Show only from one instant to another (epoch s). */
function zoom(from, to) {
  go({ range: "own", from: wallClock(Math.floor(from) * 1000), to: wallClock(Math.ceil(to) * 1000) });
}
