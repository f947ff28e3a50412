// One line of the list: a group, or a heading over some. Lines are reused while the list scrolls.

import { address } from "./place.js";
import { draw, sparkline, trend } from "./trends.js";
import { LEVELS, REASONS, VERDICTS, bounded, boundedBrief, brief, catchUp, catchUpBrief, instant, keepsUp, lagOfGroup, make, mark, number, rate, say } from "./words.js";

export const COLUMNS = [
  { key: "trouble", name: "Verdict", cell: "c-mark", sortable: true },
  { key: "group", name: "Group", cell: "c-group", sortable: true },
  { key: "cluster", name: "Cluster", cell: "c-cluster" },
  { key: "since", name: "For", cell: "c-since number", sortable: true },
  { key: "lag", name: "Lag", cell: "c-lag number", sortable: true },
  { key: "trend", name: "Last hour", cell: "c-trend" },
  { key: "rate", name: "Reads", cell: "c-rate number" },
  { key: "up", name: "Caught up in", cell: "c-up number" },
  { key: "time", name: "Time lag", cell: "c-time number", sortable: true },
  { key: "state", name: "State, members", cell: "c-state" },
];
const AT = Object.fromEntries(COLUMNS.map((column, index) => [column.key, index]));

export function line() {
  const cells = COLUMNS.map((column) => make("div", { role: "cell", class: column.cell }));
  const [start, end] = [make("span", { class: "start" }), make("span")];
  const link = make("a", { href: "#" }, start, end);
  const note = make("span", { class: "note" });
  cells[AT.group].append(link, note);
  const spark = sparkline();
  const going = make("span", { class: "going" });
  const slope = make("span", { class: "slope" });
  cells[AT.trend].append(spark, going, slope);
  for (const key of ["cluster", "since", "state"]) cells[AT[key]].classList.add("soft");
  const open = make("button", { type: "button", class: "heading" });
  const over = make("div", { role: "cell", class: "c-heading", "aria-colspan": COLUMNS.length }, open);
  const element = make("div", { role: "row", class: "row" }, over, ...cells);
  return { element, cells, over, open, link, start, end, note, spark, going, slope, status: "" };
}

/** What a line links to or opens: it takes the focus. */
export const handle = (slot) => (slot.over.hidden ? slot.link : slot.open);

/** Is a group in trouble, or not known to be well? */
export const isBad = (one) => one.worst !== "OK" || Boolean(one.incident);

/** `top`: px from the top of the list. */
export function place(slot, index, top) {
  slot.element.style.transform = `translateY(${top}px)`;
  slot.element.setAttribute("aria-rowindex", index + 2);
  slot.element.dataset.index = index;
}

export function fillHeading(slot, one) {
  kind(slot, true);
  const groups = `${number(one.count)} group${one.count === 1 ? "" : "s"}`;
  const bad = one.bad ? `, ${number(one.bad)} in trouble` : "";
  const unknown = one.unknown ? `, ${number(one.unknown)} unknown` : "";
  say(slot.open, `${one.heading} · ${one.outage ?? `${groups}${bad}${unknown}`}`);
  slot.open.dataset.heading = one.heading;
  slot.open.dataset.level = one.outage ? "err" : one.bad ? (LEVELS[one.worst] ?? "warn") : "";
  if (one.outage) slot.open.removeAttribute("aria-expanded"); // it opens the details above
  else slot.open.setAttribute("aria-expanded", String(one.open));
  slot.element.removeAttribute("data-stale");
  slot.element.dataset.level = "";
}

/** `known`: its trend; `stale`: its data are too old to be trusted; `note`: muted, acknowledged; `now`: ms. */
export function fillGroup(slot, one, { known, stale, note, now }) {
  kind(slot, false);
  const { element, cells, link } = slot;
  element.toggleAttribute("data-stale", stale);
  element.toggleAttribute("data-bad", isBad(one));
  const level = LEVELS[one.worst] ?? "unknown";
  const missed = level === "ok" && one.incident ? { error: "err", warning: "warn" }[one.incident.severity] : undefined;
  element.dataset.level = stale ? "" : (missed ?? level);
  const status = `${one.worst}${stale}`;
  if (slot.status !== status) {
    cells[AT.trouble].replaceChildren(mark(one.worst, stale));
    slot.status = status;
  }
  const cause = stale ? undefined : known?.cause;
  cells[AT.trouble].title = stale ? `Was ${VERDICTS[one.worst] ?? one.worst}. The data are too old to be trusted.` : (cause?.sentence ?? "");
  fillName(slot, one.group);
  link.href = address({ group: one.group, of: one.cluster });
  // what is unknown stays unknown while the data are old
  const unknown = one.unknown || one.worst === "UNKNOWN" ? known?.unknown : undefined;
  const lost = known?.lost ? `${known.lostIs === "upper_bound" ? "≤ " : ""}${number(known.lost)} lost` : "";
  const less = one.lag !== null && (one.readable ?? one.lag) < one.lag;
  const readable = less ? `${one.unknown ? "≥ " : ""}${number(one.readable)} readable` : "";
  const notes = [note, lost, cause && (cause.words || "cause not known"), readable, unknown].filter(Boolean).join(", ");
  say(slot.note, notes);
  slot.note.hidden = !notes;
  slot.note.toggleAttribute("data-long", notes.length > LONG_NOTE);
  slot.note.title = [cause?.sentence ?? one.incident?.headline, unknown].filter(Boolean).join("\n");
  say(cells[AT.cluster], one.cluster);
  cells[AT.cluster].title = one.cluster;
  const since = one.since === null ? "" : `${one.atLeast ? "≥ " : ""}${brief((now - one.since) / 1000)}`;
  say(cells[AT.since], since);
  cells[AT.since].title = one.since === null ? "" : `since ${one.atLeast ? "at least " : ""}${instant(one.since)}`;
  say(cells[AT.lag], lagOfGroup(one.lag, one.unknown));
  cells[AT.lag].title = readable;
  draw(slot.spark, known);
  const going = stale ? "" : trend(known, one.status === "OK"); // old data say nothing of now
  say(slot.going, going === "steady" || !going ? "" : going.startsWith("+") ? "rising " : "falling ");
  say(slot.slope, going);
  const speed = stale ? undefined : known?.speed;
  const measured = speed && speed.consumed_per_s !== null;
  say(cells[AT.rate], speed ? (measured ? rate(speed.consumed_per_s) : "not yet") : "");
  cells[AT.rate].title = speed && !measured ? "Not measured yet: too few commits were seen." : "";
  cells[AT.up].title = speed ? catchUp({ ...speed, status: one.status, catch_up_low_s: null }) : "";
  say(cells[AT.up], speed && one.lag !== 0 && going !== "steady" && !keepsUp(one.status, speed) ? catchUpBrief(speed) : "");
  say(cells[AT.time], timeLag(one));
  cells[AT.time].title = [one.time === null ? "" : bounded(one.time, one.bound), REASONS[one.reason]].filter(Boolean).join(": ");
  say(cells[AT.state], one.members === null ? one.state : `${one.state}, ${number(one.members)}`);
}

const LONG_NOTE = 30; // characters; it gives way to the name
const SPLIT_FROM = 25; // characters
const END = 12;
const ruler = document.createElement("canvas").getContext("2d");
let rulerReady = false; // has the font of the names

/** A long name loses its middle where there is too little room: names of one team often differ in their ends. */
function fillName({ link, start, end }, name) {
  if (link.title === name) return;
  const letters = name.length < SPLIT_FROM ? [] : [...name]; // a letter may take two units
  const last = letters.length < SPLIT_FROM ? "" : letters.slice(-END).join("");
  say(start, name.slice(0, name.length - last.length));
  say(end, last);
  link.style.setProperty("--end", `${last ? width(last, link) : 0}px`);
  link.title = name;
}

/** Of a text in the font of an element (px); less than it takes, so that what fits is never cut. */
function width(text, element) {
  if (!rulerReady) {
    ruler.font = getComputedStyle(element).font;
    rulerReady = true;
  }
  return Math.floor(ruler.measureText(text).width) - 1;
}

/** Where the log end is not known, neither is the lag: the note says why. */
const timeLag = (one) => (one.time === null ? ((one.lag !== null && REASONS[one.reason]) || "unknown") : boundedBrief(one.time, one.bound));

function kind(slot, heading) {
  slot.over.hidden = !heading;
  for (const cell of slot.cells) cell.hidden = heading;
  slot.element.classList.toggle("is-heading", heading);
}
