// Numbers, instants and statuses in words, and elements made without ever parsing foreign text.

import { instant } from "./instants.js";

export const LEVELS = { OK: "ok", WARN: "warn", ERR: "err", STOP: "err", STALL: "err", REWIND: "err", INCIDENT: "warn" };
export const VERDICTS = { OK: "OK", WARN: "WARNING", STOP: "STOPPED", STALL: "STALLED", REWIND: "REWOUND", UNKNOWN: "UNKNOWN", ERR: "ERROR" };

const plain = new Intl.NumberFormat("en");

export const number = (value) => (value === null || value === undefined ? "unknown" : plain.format(value));

/** The lag of a group, of which some partitions may be unknown: then it is a lower bound, and one of 0 says nothing. */
export const lagOfGroup = (lag, unknown) => (!unknown ? number(lag) : lag ? `≥ ${number(lag)}` : number(null));

const UNITS = [[86_400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];

/** The same words as `lagwatch.core.words.duration`: `9 min 30 s`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  const rounded = Math.floor(seconds * 10 + 0.5) / 10;
  if (rounded < 60) return `${Number.isInteger(rounded) ? rounded : rounded.toFixed(1)} s`;
  const [unit, name, part, partName] = UNITS.find(([length]) => rounded >= length);
  const rest = Math.floor((rounded % unit) / part);
  return `${Math.floor(rounded / unit)} ${name}${rest ? ` ${rest} ${partName}` : ""}`;
}

/** The same words as `lagwatch.core.words.client`: `client mailer-1 on 10.0.3.14`. */
export function member(clientId, host) {
  const name = (host ?? "").replace(/^\/+/, "");
  if (!clientId) return name && `host ${name}`;
  return name ? `client ${clientId} on ${name}` : `client ${clientId}`;
}

const SIGNS = { at_least: "≥ ", at_most: "≤ ", estimate: "~ " };

/** A time lag with the sign of its bound; at least nothing is unknown. */
export function bounded(seconds, bound) {
  const said = duration(seconds);
  if (bound === "at_least" && said === "0 s") return number(null);
  return (seconds === null || seconds === undefined ? "" : (SIGNS[bound] ?? "")) + said;
}

/** The same for a narrow column: from ten minutes on without seconds. */
export const boundedBrief = (seconds, bound) => (seconds < 600 ? bounded(seconds, bound) : (SIGNS[bound] ?? "") + brief(seconds));

/** Why a time lag is a bound, or not known. */
export const REASONS = {
  measured: "", caught_up: "", stored: "", offset_time: "",
  recorded: "between two stored samples",
  between_rounds: "between two rounds of log ends",
  deleted_unread: "the oldest were deleted before they were read",
  beyond_history: "older than what lagwatch has seen",
  log_end_unknown: "log end not known",
  never_committed: "never committed",
  not_sampled: "came while lagwatch did not run",
  record_time: "by the times that producers gave",
  earlier_offset: "by a message that was read since",
  samples_apart: "log ends were read too far apart",
  recorded_apart: "the stored samples are too far apart",
  done_out_of_order: "the group has done later messages first",
  ahead_of_log_end: "committed beyond the log end",
};

/** `12/s`, `0.25/s`: messages per second. */
export const rate = (perS) =>
  perS === null || perS === undefined ? "not measured yet" : `${perS < 10 ? +perS.toPrecision(2) : plain.format(Math.round(perS))}/s`;

const NEVER = { not_moving: "never: nothing is read", falling_behind: "never at this rate", too_slow: "more than a year", rates_unknown: "not known yet: too few commits", lag_unknown: "not known: no lag", waits_for_transaction: "not before a transaction ends" };

/** Does a group hold its lag, as far as chance allows? Then it will never have read all, and nothing is wrong. */
export const keepsUp = (status, { catch_up_reason, steady }) => catch_up_reason === "keeps_up" || status === "OK" && steady && (catch_up_reason === "falling_behind" || catch_up_reason === "too_slow");

/** When a group will have caught up, at its rates. */
export function catchUp({ status, steady, catch_up_s, catch_up_low_s, catch_up_high_s, catch_up_reason, consumed_per_s, partitions }) {
  if (keepsUp(status, { catch_up_reason, steady })) return "keeps up";
  if (catch_up_reason === "caught_up") return "caught up";
  if (catch_up_reason === "not_moving" && consumed_per_s > 0) return `never: ${notRead(partitions ?? [])}`;
  if (catch_up_s === null || catch_up_s === undefined) return NEVER[catch_up_reason] ?? "unknown";
  if (catch_up_low_s === null) return duration(catch_up_s);
  return `${duration(catch_up_s)} (${duration(catch_up_low_s)} to ${catch_up_high_s === null ? "never" : duration(catch_up_high_s)})`;
}

/** Of a group that reads: which of its partitions it does not read. */
function notRead(partitions) {
  const count = partitions.filter((part) => part.catch_up_reason === "not_moving").length;
  return count ? `${number(count)} of ${number(partitions.length)} partitions ${count === 1 ? "is" : "are"} not read` : "not all partitions are read";
}

/** The same in a few letters. */
export function catchUpBrief({ catch_up_s, catch_up_reason }) {
  if (catch_up_s !== null) return brief(catch_up_s);
  return { caught_up: "", keeps_up: "", not_moving: "never", falling_behind: "never", too_slow: "> 1 year", rates_unknown: "no rate yet", lag_unknown: "no lag known", waits_for_transaction: "held up" }[catch_up_reason] ?? "unknown";
}

/** Two units at most, without seconds: for a narrow column. */
export function brief(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return duration(seconds);
}

/** `STALLED since 14:02:11 CET: offset 1,204 unchanged …` */
export function verdict(said) {
  const since = said.since_ms === null ? "" : ` since ${said.at_least ? "at least " : ""}${instant(said.since_ms)}`;
  return `${said.headline}${since}: ${said.text}.`;
}

const ASCII = /^[ -~]*$/;

/**
 * The same as `lagwatch.core.words.printable`: without what could turn the direction of a line or end it. Anyone who
 * may commit to Kafka chooses the names of groups.
 */
export const printable = (text) => (ASCII.test(text) ? text : text.replace(/\p{C}|(?! )\p{Z}/gu, "\ufffd"));

const READ = new Set(["title", "aria-label"]); // attributes that are shown or read out

/** An element; children are elements or text, and text stays text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : READ.has(name) ? printable(value) : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (typeof child === "string" ? printable(child) : child)));
  return element;
}

/** A verdict; of data that are too old, one that only was. */
export function mark(status, stale = false) {
  const word = VERDICTS[status] ?? status;
  return make("span", { class: "mark", "data-level": LEVELS[status] ?? "unknown" }, stale ? `was ${word}` : word);
}

/** Give a text only when it differs: screen readers and the layout are left in peace. */
export function say(element, text) {
  const shown = printable(text);
  if (element.textContent !== shown) element.textContent = shown;
}

/** What is shown where the mouse rests on an element: a line of each text that is not empty. */
export function hint(element, ...texts) {
  const shown = texts.filter(Boolean).map(printable).join("\n");
  if (element.title !== shown) element.title = shown;
}

/** The title of the page. */
export function entitle(text) {
  document.title = printable(text);
}
