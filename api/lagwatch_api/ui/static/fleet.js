// The list of all groups: sorted, filtered, arranged, and only what is on the screen is in the document.

import { inTroubleSince } from "./alerts.js";
import { ask } from "./ask.js";
import { go, read } from "./place.js";
import { COLUMNS, fillGroup, fillHeading, handle, isBad, line, place } from "./rows.js";
import { Trends } from "./trends.js";
import { outage, reason } from "./troubles.js";
import { VIEWS, arranged, needsSubscriptions } from "./views.js";
import { LEVELS, entitle, hint, make, number, say } from "./words.js";

const TROUBLE = { REWIND: 4, STALL: 4, STOP: 4, ERR: 4, WARN: 3, UNKNOWN: 2, OK: 1 };
const SORTS = {
  trouble: (a, b) => b.trouble - a.trouble || b.lagRank - a.lagRank || byName(a, b),
  group: (a, b) => byName(a, b),
  since: (a, b) => (a.since ?? Infinity) - (b.since ?? Infinity) || byName(a, b),
  lag: (a, b) => b.lagRank - a.lagRank || byName(a, b),
  time: (a, b) => b.timeRank - a.timeRank || byName(a, b),
};
const TOTALS = { ERR: "in error", WARN: "with a warning", UNKNOWN: "unknown", OK: "ok", INCIDENT: "with an open incident" };
/** A group that misses a limit is in trouble although its verdict is good. */
const OF_INCIDENT = { error: 3.5, warning: 2.5 };
const OVERSCAN = 6;
const HEIGHT = 36; // px of a row
/** On a phone; until a row is drawn. Causes wrap, so each row has its own height. */
const NARROW_HEIGHT = { good: 60, bad: 104 };
const SUBSCRIPTIONS_EVERY_MS = 60_000;
const SOON_MS = 2_500; // where groups are listed of which it is not known what they read
const narrow = matchMedia("(max-width: 720px)");

/** A group of which nothing is known any more but its open incident: its cluster was not seen since lagwatch started. */
const remembered = ({ cluster, group, since_ms }) => ({
  cluster, group, judgedSince: since_ms, judgedAtLeast: false, remembered: true, stale: true,
  key: `${cluster}\n${group}`, find: `${group}\n${cluster}`.toLowerCase(),
  status: "UNKNOWN", worst: "UNKNOWN", state: "", unknown: 0, judged: TROUBLE.UNKNOWN,
  lag: null, readable: null, time: null, members: null, lagRank: -1, timeRank: -1,
});

const byName = (a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : a.cluster < b.cluster ? -1 : 1);
const $ = (id) => document.getElementById(id);

export class Fleet {
  #live;
  #alerts;
  #troubles;
  #trends = new Trends(() => this.#draw());
  #all = []; // sorted
  #sortedBy = "";
  #found = 0; // groups that match
  #shown = []; // lines: groups, and headings in a view
  #open = new Set(); // headings
  #folded = { of: "", headings: new Set() }; // during a search all others are open: what it finds shall be seen
  #subscriptions = new Map(); // cluster → { group: { topics, clients, teams } }
  #subscribedAt = -Infinity;
  #againMs = SUBSCRIPTIONS_EVERY_MS;
  #later = 0;
  #undescribed = 0; // groups of which it is not known what they read
  #pool = [];
  #measured = new Map(); // key → height on a phone
  #tops = [0]; // px from the top of each line, and the end of the last; on a phone only
  #pad = make("div", { class: "pad", "aria-hidden": "true" });

  constructor(live, alerts, troubles) {
    this.#live = live;
    this.#alerts = alerts;
    this.#troubles = troubles;
    alerts.onChange(() => {
      if (this.#missing().length) return this.take();
      this.#rank();
      if ($("fleet").hidden) this.count(); // its own list may be older than what is counted, or empty
      else this.show();
    });
    this.#head();
    $("scroll").append(this.#pad);
    $("scroll").addEventListener("scroll", () => this.#draw(), { passive: true });
    $("scroll").addEventListener("keydown", (event) => this.#key(event));
    $("scroll").addEventListener("click", (event) => this.#toggle(event.target.dataset.heading));
    $("q").addEventListener("input", () => go({ q: $("q").value }, { replace: true }));
    $("q").addEventListener("focus", () => this.#subscribe());
    $("totals").addEventListener("click", (event) => this.#pick(event.target.dataset.status));
    $("view").append(...Object.entries(VIEWS).map(([value, word]) => make("option", { value }, word)));
    for (const id of ["cluster", "status", "state", "view"]) {
      $(id).addEventListener("change", () => go({ [id]: $(id).value }));
    }
    $("filters").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#focus(0);
    });
    narrow.addEventListener("change", () => this.show());
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width !== width) this.#measured.clear();
      width = contentRect.width;
      this.#lay();
      this.#draw();
    }).observe($("scroll"));
    setInterval(() => document.hidden || this.#draw(), 10_000); // durations go on
  }

  /** New rows have come. */
  take() {
    const at = Object.fromEntries(this.#live.columns.map((name, index) => [name, index]));
    this.#all = [];
    for (const [cluster, { rows }] of this.#live.clusters) {
      for (const cells of rows.values()) {
        const [group, lag, time] = [cells[at.group], cells[at.lag], cells[at.time_lag_s]];
        this.#all.push({
          cluster, group, lag, time,
          key: `${cluster}\n${group}`,
          status: cells[at.status],
          worst: cells[at.worst],
          state: cells[at.state],
          unknown: cells[at.unknown],
          readable: cells[at.readable_lag],
          members: cells[at.members],
          stale: cells[at.stale],
          bound: cells[at.time_lag_bound],
          reason: cells[at.time_lag_reason],
          judgedSince: cells[at.since_ms],
          judgedAtLeast: cells[at.since_at_least],
          find: `${group}\n${cluster}`.toLowerCase(),
          judged: TROUBLE[cells[at.worst]] ?? 2,
          lagRank: lag ?? -1,
          timeRank: time ?? -1,
        });
      }
    }
    for (const cluster of this.#missing()) this.#all.push(...this.#alerts.incidentsOn(cluster).map(remembered));
    this.#describe();
    this.#rank();
    this.#choices();
    this.show();
  }

  /** Note which groups have an open incident, and how bad that makes them. */
  #rank() {
    for (const entry of this.#all) {
      entry.incident = this.#alerts.incident(entry.cluster, entry.group);
      entry.trouble = Math.max(entry.judged, OF_INCIDENT[entry.incident?.severity] ?? 0);
      Object.assign(entry, inTroubleSince(entry.judgedSince, entry.judgedAtLeast, entry.incident));
    }
    this.#sortedBy = "";
  }

  /** New rows have come while the list is not shown. */
  count() {
    const { q, state } = read();
    if (q || state) return this.take(); // what is counted must be searched
    const [name, status, old] = ["group", "status", "stale"].map((column) => this.#live.columns.indexOf(column));
    const counted = [...this.#live.clusters].filter(([cluster]) => !read().cluster || cluster === read().cluster);
    this.#totals(counted.flatMap(([cluster, { rows }]) => [...rows.values()].map((cells) => ({ cluster, status: cells[status], stale: cells[old], incident: this.#alerts.incident(cluster, cells[name]) }))));
  }

  /** Show what the address asks for. */
  show() {
    const asked = read();
    const sort = asked.sort in SORTS ? asked.sort : "trouble";
    if (this.#sortedBy !== sort) this.#all.sort(SORTS[(this.#sortedBy = sort)]);
    for (const id of ["q", "cluster", "status", "state", "view"]) {
      if ($(id).value !== (asked[id] ?? "")) $(id).value = asked[id] ?? "";
    }
    const matches = matcher(asked.q ?? "");
    const counted = this.#all.filter(
      (entry) => (!asked.cluster || entry.cluster === asked.cluster) && (!asked.state || entry.state === asked.state) && matches(entry.find),
    );
    this.#totals(counted);
    const found = counted.filter((entry) => !asked.status || entry.status === asked.status || entry.worst === asked.status || (asked.status === "INCIDENT" && entry.incident));
    if (asked.order === "reverse") found.reverse();
    const view = asked.view in VIEWS ? asked.view : "";
    if (asked.q || needsSubscriptions(view)) this.#subscribe(); // a search finds topics and clients as well
    this.#found = found.length;
    if (this.#folded.of !== (asked.q ?? "")) this.#folded = { of: asked.q ?? "", headings: new Set() };
    const isOpen = (heading) => (asked.q ? !this.#folded.headings.has(heading) : this.#open.has(heading));
    this.#shown = view ? arranged(found, view, isOpen, this.#all) : found;
    if (view === "cluster") this.#shown = [...this.#silent(asked, matches), ...this.#shown];
    this.#sorting(sort, asked.order === "reverse");
    $("table").setAttribute("aria-rowcount", this.#shown.length + 1);
    say($("shown"), matches.fault ? `${matches.fault} All groups are shown.` : this.#summary());
    this.#lay();
    this.#draw();
  }

  #summary() {
    if (!this.#live.clusters.size) return "Waiting for the first data …";
    const missing = this.#missing().map((name) => this.#live.clusters.get(name));
    const { cluster } = read();
    const known = this.#all.some((entry) => !entry.remembered && (!cluster || entry.cluster === cluster));
    if (missing.length && !known) return missing.map((cluster) => `${cluster.state.cluster}: ${this.#outage(cluster)}: ${reason(cluster)}. Its groups are not known${this.#all.some((entry) => entry.cluster === cluster.state.cluster) ? ", but for those with an open incident" : ""}.`).join(" ");
    if (!this.#all.length) return "No groups so far.";
    if (!this.#found) return "No group matches. Clear the search or the filters to see all.";
    return `${number(this.#found)} of ${number(this.#all.length)} groups`;
  }

  // what groups read is asked for only where it is needed

  async #subscribe() {
    clearTimeout(this.#later);
    const left = this.#subscribedAt + this.#againMs - performance.now();
    if (left > 0) this.#later = setTimeout(() => $("fleet").hidden || this.show(), left);
    if (left > 0 || !this.#all.length) return;
    this.#subscribedAt = performance.now();
    this.#againMs = Math.min(2 * this.#againMs, SUBSCRIPTIONS_EVERY_MS); // some groups are never described
    for (const cluster of this.#live.clusters.keys()) {
      try {
        const answer = await ask(`api/v1/clusters/${encodeURIComponent(cluster)}/subscriptions`);
        this.#subscriptions.set(cluster, answer.groups);
      } catch {
        // the groups can be found by their names
      }
    }
    this.#describe();
    this.show();
  }

  /** Add to the rows what they read, so that it can be searched and arranged by. */
  #describe() {
    const before = this.#undescribed;
    this.#undescribed = 0;
    for (const entry of this.#all) {
      const known = this.#subscriptions.get(entry.cluster)?.[entry.group];
      if (!known) {
        this.#undescribed += 1;
        continue;
      }
      entry.topics = known.topics;
      entry.clients = known.clients;
      entry.teams = known.teams;
      entry.find = [entry.group, entry.cluster, ...known.topics, ...known.clients, ...known.teams].join("\n").toLowerCase();
    }
    if (!this.#undescribed) this.#againMs = SUBSCRIPTIONS_EVERY_MS;
    else if (!before) this.#againMs = SOON_MS; // groups are new, or a server starts
  }

  /** Headings for clusters of which nothing is known, so that nobody takes them for well. */
  #silent(asked, matches) {
    if (asked.state || (asked.status && asked.status !== "UNKNOWN")) return [];
    const names = this.#missing().filter((name) => matches(name.toLowerCase()));
    return names.map((name) => ({ heading: name, outage: this.#outage(this.#live.clusters.get(name)) }));
  }

  #outage(cluster) {
    return outage(cluster, this.#alerts.incidentOf(cluster.state.cluster));
  }

  #toggle(heading) {
    if (heading === undefined) return;
    if (this.#shown.find((entry) => entry.heading === heading)?.outage) return this.#troubles.open();
    const chosen = read().q ? this.#folded.headings : this.#open;
    if (!chosen.delete(heading)) chosen.add(heading);
    this.show();
  }

  #pick(status) {
    if (status) go({ status: read().status === status ? "" : status, group: "", of: "", page: "" });
  }

  #head() {
    for (const column of COLUMNS) {
      const label = column.sortable
        ? make("button", { type: "button", onclick: () => this.#sortBy(column.key) }, column.name)
        : column.name;
      const cell = make("div", { role: "columnheader", class: `${column.cell} ${column.sortable ? "sortable" : ""}` }, label);
      cell.dataset.key = column.key;
      $("head").append(cell);
    }
  }

  #sortBy(key) {
    const asked = read();
    const again = (asked.sort ?? "trouble") === key;
    go({ sort: key === "trouble" ? "" : key, order: again && asked.order !== "reverse" ? "reverse" : "" });
  }

  #sorting(sort, reverse) {
    for (const cell of $("head").children) {
      const down = (sort !== "group") !== reverse;
      if (cell.dataset.key === sort) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
  }

  #choices() {
    const of = (key) => [...new Set(this.#all.map((entry) => entry[key]))].sort();
    choose($("cluster"), "All clusters", [...this.#live.clusters.keys()].sort());
    $("cluster").parentElement.hidden = this.#live.clusters.size < 2 && !read().cluster; // a phone has no room for it
    choose($("status"), "Any status", ["ERR", "WARN", "OK", "UNKNOWN", "STOP", "STALL", "REWIND", "INCIDENT"]);
    choose($("state"), "Any state", of("state"));
  }

  /** How many of these groups have each status, and of how many the data are old; each total is a filter. */
  #totals(groups) {
    const [counts, old] = [{}, {}];
    for (const entry of groups) {
      counts[entry.status] = (counts[entry.status] ?? 0) + 1;
      if (entry.incident) counts.INCIDENT = (counts.INCIDENT ?? 0) + 1;
      if (this.#isOld(entry)) old[entry.status] = (old[entry.status] ?? 0) + 1;
    }
    const box = $("totals");
    if (!box.children.length) {
      const button = (status) => make("button", { type: "button", class: "total", "data-status": status, "data-level": LEVELS[status] ?? "unknown" });
      box.append(...Object.keys(TOTALS).map(button), make("span", { class: "soft" }));
    }
    const missing = this.#missing();
    const nothing = !groups.length && (missing.length > 0 || !this.#live.clusters.size); // is known: not 0
    for (const button of box.querySelectorAll("button")) {
      const { status } = button.dataset;
      const aged = old[status] ? `${old[status] < counts[status] ? `${number(old[status])} ` : ""}old` : "";
      say(button, `${number(counts[status] ?? 0)} ${TOTALS[status]}${aged && ` (${aged})`}`);
      button.toggleAttribute("data-stale", Boolean(old[status]));
      hint(button, aged && "Their data are too old to be trusted.");
      button.hidden = !counts[status] && (status !== "OK" || nothing);
      button.setAttribute("aria-pressed", String(status === read().status));
    }
    say(box.lastChild, missing.length ? `${missing.join(", ")}: unknown` : "");
    const aged = old.ERR === counts.ERR ? " old" : old.ERR ? `, ${old.ERR} old` : "";
    const bad = counts.ERR ? `(${counts.ERR}${aged}) ` : "";
    if (!read().group) entitle(`${bad}lagwatch`);
  }

  #isOld(entry) {
    return entry.stale || this.#live.isStale(entry.cluster) || !this.#live.connected;
  }

  /** Clusters that the address asks for and of which nothing is known. */
  #missing() {
    const { cluster } = read();
    const none = ([name, { state, rows }]) => !state.ready && !rows.size && (!cluster || name === cluster);
    return [...this.#live.clusters].filter(none).map(([name]) => name);
  }

  /** Find out where each line is. */
  #lay() {
    this.#tops = [0];
    if (!narrow.matches) return;
    for (const entry of this.#shown) this.#tops.push(this.#tops.at(-1) + this.#height(entry));
  }

  #height(entry) {
    if (entry.heading !== undefined) return NARROW_HEIGHT.good;
    return this.#measured.get(entry.key) ?? (isBad(entry) ? NARROW_HEIGHT.bad : NARROW_HEIGHT.good);
  }

  /** Where a line begins (px). */
  #top(index) {
    return narrow.matches ? this.#tops[index] : index * HEIGHT;
  }

  /** Which line is at a place (px). */
  #at(place) {
    if (!narrow.matches) return Math.floor(place / HEIGHT);
    let [low, high] = [0, this.#shown.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#tops[middle] <= place) low = middle;
      else high = middle;
    }
    return low;
  }

  #draw() {
    const box = $("scroll");
    const least = narrow.matches ? NARROW_HEIGHT.good : HEIGHT;
    const count = Math.min(this.#shown.length, Math.ceil(box.clientHeight / least) + 2 * OVERSCAN);
    const total = `${this.#top(this.#shown.length)}px`;
    if (this.#pad.style.height !== total) this.#pad.style.height = total;
    while (this.#pool.length < count) {
      const added = line();
      box.append(added.element);
      this.#pool.push(added);
    }
    const top = Math.max(0, Math.min(this.#at(box.scrollTop) - OVERSCAN, this.#shown.length - count));
    const size = this.#pool.length;
    const used = new Set();
    for (let index = top; index < top + count; index++) {
      used.add(index % size);
      this.#fill(this.#pool[index % size], index);
    }
    for (let slot = 0; slot < size; slot++) this.#pool[slot].element.hidden = !used.has(slot);
    if (narrow.matches) this.#measure(top, count);
    if (box.clientHeight) this.#trends.want(this.#shown.slice(top, top + count).filter((entry) => entry.group));
  }

  /** Give rows the height that their texts take. */
  #measure(top, count) {
    let changed = false;
    for (let index = top; index < top + count; index++) {
      const entry = this.#shown[index];
      const taken = this.#pool[index % this.#pool.length].element.offsetHeight;
      if (!taken || entry.heading !== undefined || taken === this.#height(entry)) continue;
      this.#measured.set(entry.key, taken);
      changed = true;
    }
    if (!changed) return;
    this.#lay();
    this.#pad.style.height = `${this.#top(this.#shown.length)}px`;
    for (let index = top; index < top + count; index++) place(this.#pool[index % this.#pool.length], index, this.#top(index));
  }

  #fill(slot, index) {
    const entry = this.#shown[index];
    place(slot, index, this.#top(index));
    if (entry.heading !== undefined) return fillHeading(slot, entry, (entry.members ?? []).filter((member) => this.#isOld(member)).length);
    return fillGroup(slot, entry, { known: this.#trends.of(entry), stale: this.#isOld(entry), note: this.#note(entry), now: this.#live.now(entry.cluster) });
  }

  #note({ cluster, group, incident, worst, remembered }) {
    const by = incident?.acknowledged_by ? ` by ${incident.acknowledged_by}` : "";
    const open = incident && (LEVELS[worst] === "ok" || remembered) && "open incident";
    return [this.#alerts.muted(cluster, group) && "muted", open, incident?.acknowledged_ms && `acknowledged${by}`].filter(Boolean).join(", ");
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const row = event.target.closest(".row");
    this.#focus(row ? Number(row.dataset.index) + step : 0);
  }

  #focus(wanted) {
    const index = Math.max(0, Math.min(this.#shown.length - 1, wanted));
    if (!this.#shown.length) return;
    const box = $("scroll");
    const [begin, end] = [this.#top(index), this.#top(index + 1)];
    if (begin < box.scrollTop) box.scrollTop = begin;
    if (end > box.scrollTop + box.clientHeight) box.scrollTop = end - box.clientHeight;
    this.#draw();
    handle(this.#pool[index % this.#pool.length]).focus({ preventScroll: true });
  }

  /** The focus goes to a group that was opened from the list, if nothing else has it. */
  returnTo({ of, group }) {
    const index = this.#shown.findIndex((entry) => entry.cluster === of && entry.group === group);
    if (index >= 0 && document.activeElement === document.body) this.#focus(index);
  }

  /** From the search field into the list. */
  enter() {
    this.#focus(0);
  }
}

/** Does a text match? Words must all be in it; `/…/` is a regular expression. With a `fault` it matches all. */
function matcher(wanted) {
  const pattern = /^\/(.+)\/$/.exec(wanted.trim());
  if (pattern) {
    try {
      const expression = new RegExp(pattern[1], "im");
      return (text) => expression.test(text);
    } catch (error) {
      return Object.assign(() => true, { fault: `No regular expression: ${error.message}.` });
    }
  }
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => words.every((word) => text.includes(word));
}

function choose(select, all, values) {
  const wanted = read()[select.id] ?? "";
  const options = wanted && !values.includes(wanted) ? [...values, wanted] : values;
  if ([...select.options].slice(1).map((option) => option.value).join("\n") === options.join("\n") && select.options.length) return;
  select.replaceChildren(make("option", { value: "" }, all), ...options.map((value) => make("option", { value: value }, value)));
  select.value = wanted;
}
