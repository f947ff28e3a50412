// One line of the list: a group, or a heading over some. Lines are reused while the list scrolls.

import { instant } from "./instants.js";
import { address } from "./place.js";
import { draw, sparkline, trend } from "./trends.js";
import { LEVELS, REASONS, VERDICTS, bounded, boundedBrief, brief, catchUp, catchUpBrief, hint, keepsUp, lagOfGroup, make, mark, number, printable, rate, say } from "./words.js";

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
export const isBad = (entry) => entry.worst !== "OK" || Boolean(entry.incident);

/** `top`: px from the top of the list. */
export function place(slot, index, top) {
  slot.element.style.transform = `translateY(${top}px)`;
  slot.element.setAttribute("aria-rowindex", index + 2);
  slot.element.dataset.index = index;
}

/** `old`: of how many of its groups the data are too old to be trusted. */
export function fillHeading(slot, section, old) {
  kind(slot, true);
  const groups = `${number(section.count)} group${section.count === 1 ? "" : "s"}`;
  const bad = section.bad ? `, ${number(section.bad)} in trouble` : "";
  const unknown = section.unknown ? `, ${number(section.unknown)} unknown` : "";
  const aged = old ? ` (${old < section.count ? `${number(old)} ` : ""}old)` : "";
  say(slot.open, `${section.heading} · ${section.outage ?? `${groups}${bad}${unknown}${aged}`}`);
  hint(slot.open, old && OLD);
  slot.open.dataset.heading = section.heading;
  const level = section.bad && old < section.count ? (LEVELS[section.worst] ?? "warn") : "";
  slot.open.dataset.level = section.outage ? "err" : level;
  if (section.outage) slot.open.removeAttribute("aria-expanded"); // it opens the details above
  else slot.open.setAttribute("aria-expanded", String(section.open));
  slot.element.removeAttribute("data-stale");
  slot.element.dataset.level = "";
}

/** `known`: its trend; `stale`: its data are too old to be trusted; `note`: muted, acknowledged; `now`: ms. */
export function fillGroup(slot, entry, { known, stale, note, now }) {
  kind(slot, false);
  const { element, cells, link } = slot;
  element.toggleAttribute("data-stale", stale);
  element.toggleAttribute("data-bad", isBad(entry));
  const level = LEVELS[entry.worst] ?? "unknown";
  const missed = level === "ok" && entry.incident ? { error: "err", warning: "warn" }[entry.incident.severity] : undefined;
  element.dataset.level = stale ? "" : (missed ?? level);
  const status = `${entry.worst}${stale}`;
  if (slot.status !== status) {
    cells[AT.trouble].replaceChildren(mark(entry.worst, stale));
    slot.status = status;
  }
  const cause = known?.cause;
  hint(cells[AT.trouble], stale ? `Was ${VERDICTS[entry.worst] ?? entry.worst}. ${OLD}` : cause?.sentence);
  fillName(slot, entry.group);
  link.href = address({ group: entry.group, of: entry.cluster });
  // what is unknown stays unknown while the data are old
  const unknown = entry.unknown || entry.worst === "UNKNOWN" ? known?.unknown : undefined;
  const quiet = !stale && entry.status === "OK" ? known?.quiet : undefined;
  const lost = known?.lost ? `${known.lostIs === "upper_bound" ? "≤ " : ""}${number(known.lost)} lost` : "";
  const less = entry.lag !== null && (entry.readable ?? entry.lag) < entry.lag;
  const readable = less ? `${entry.unknown ? "≥ " : ""}${number(entry.readable)} readable` : "";
  const why = cause && (cause.words || "cause not known");
  const notes = [note, lost, lost && why === "records lost" ? "" : why, readable, unknown, quiet?.words].filter(Boolean).join(", ");
  say(slot.note, notes);
  slot.note.hidden = !notes;
  slot.note.toggleAttribute("data-long", notes.length > LONG_NOTE);
  hint(slot.note, stale && cause?.sentence ? `${OLD} Before: ${cause.sentence}` : cause?.sentence ?? entry.incident?.headline ?? quiet?.sentence, unknown);
  say(cells[AT.cluster], entry.cluster);
  hint(cells[AT.cluster], entry.cluster);
  const since = entry.since === null ? "" : `${entry.atLeast ? "≥ " : ""}${brief((now - entry.since) / 1000)}`;
  say(cells[AT.since], since);
  hint(cells[AT.since], entry.since !== null && `since ${entry.atLeast ? "at least " : ""}${instant(entry.since)}`);
  say(cells[AT.lag], lagOfGroup(entry.lag, entry.unknown));
  hint(cells[AT.lag], readable);
  draw(slot.spark, known);
  const going = stale ? "" : trend(known, entry.status); // old data say nothing of now
  say(slot.going, going === "steady" || !going ? "" : going.startsWith("+") ? "rising " : "falling ");
  say(slot.slope, going);
  const speed = stale ? undefined : known?.speed;
  const measured = speed && speed.consumed_per_s !== null;
  say(cells[AT.rate], speed ? (measured ? rate(speed.consumed_per_s) : "not yet") : "");
  hint(cells[AT.rate], speed && !measured && "Not measured yet: too few commits were seen.");
  hint(cells[AT.up], speed && catchUp({ ...speed, status: entry.status, catch_up_low_s: null }));
  say(cells[AT.up], speed && entry.lag !== 0 && (going !== "steady" || entry.status !== "OK") && !keepsUp(entry.status, speed) ? catchUpBrief(speed) : "");
  say(cells[AT.time], timeLag(entry));
  hint(cells[AT.time], [entry.time === null ? "" : bounded(entry.time, entry.bound), REASONS[entry.reason]].filter(Boolean).join(": "));
  say(cells[AT.state], entry.members === null ? entry.state : `${entry.state}, ${number(entry.members)}`);
}

const OLD = "The data are too old to be trusted.";
const LONG_NOTE = 30; // characters; it gives way to the name
const SPLIT_FROM = 25; // characters
const END = 12;
const ruler = document.createElement("canvas").getContext("2d");
let rulerReady = false; // has the font of the names

/** A long name loses its middle where there is too little room: names of one team often differ in their ends. */
function fillName({ link, start, end }, group) {
  const name = printable(group);
  if (link.title === name) return;
  const letters = name.length < SPLIT_FROM ? [] : [...name]; // a letter may take two units
  const last = letters.length < SPLIT_FROM ? "" : letters.slice(-END).join("");
  say(start, name.slice(0, name.length - last.length));
  say(end, last);
  link.style.setProperty("--end", `${last ? width(last, link) : 0}px`);
  hint(link, name);
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
const timeLag = (entry) => (entry.time === null ? ((entry.lag !== null && REASONS[entry.reason]) || "unknown") : boundedBrief(entry.time, entry.bound));

function kind(slot, heading) {
  slot.over.hidden = !heading;
  for (const cell of slot.cells) cell.hidden = heading;
  slot.element.classList.toggle("is-heading", heading);
}
