// The list of all groups: sorted, filtered, and only what is on the screen is in the document.

import { bounded, make, mark, number, say } from "./words.js";
import { address, go, read } from "./place.js";

const TROUBLE = { REWIND: 4, STALL: 4, STOP: 4, ERR: 4, WARN: 3, UNKNOWN: 2, OK: 1 };
const COLUMNS = [
  { key: "trouble", name: "Verdict", cell: "c-mark", sortable: true },
  { key: "group", name: "Group", cell: "c-group", sortable: true },
  { key: "cluster", name: "Cluster", cell: "c-cluster" },
  { key: "state", name: "State", cell: "c-state" },
  { key: "lag", name: "Lag", cell: "c-lag number", sortable: true },
  { key: "time", name: "Time lag", cell: "c-time number", sortable: true },
  { key: "members", name: "Members", cell: "c-members number" },
];
const SORTS = {
  trouble: (a, b) => b.trouble - a.trouble || b.lagRank - a.lagRank || byName(a, b),
  group: (a, b) => byName(a, b),
  lag: (a, b) => b.lagRank - a.lagRank || byName(a, b),
  time: (a, b) => b.timeRank - a.timeRank || byName(a, b),
};
const OVERSCAN = 6;
const narrow = matchMedia("(max-width: 720px)");

const byName = (a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : a.cluster < b.cluster ? -1 : 1);
const $ = (id) => document.getElementById(id);

export class Fleet {
  #live;
  #all = []; // sorted
  #sortedBy = "";
  #shown = [];
  #pool = [];
  #pad = make("div", { class: "pad", "aria-hidden": "true" });

  constructor(live) {
    this.#live = live;
    this.#head();
    $("scroll").append(this.#pad);
    $("scroll").addEventListener("scroll", () => this.#draw(), { passive: true });
    $("scroll").addEventListener("keydown", (event) => this.#key(event));
    $("q").addEventListener("input", () => go({ q: $("q").value }, { replace: true }));
    for (const id of ["cluster", "status", "state"]) {
      $(id).addEventListener("change", () => go({ [id]: $(id).value }));
    }
    $("filters").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#focus(0);
    });
    narrow.addEventListener("change", () => this.show());
    new ResizeObserver(() => this.#draw()).observe($("scroll"));
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
          status: cells[at.status],
          worst: cells[at.worst],
          state: cells[at.state],
          unknown: cells[at.unknown],
          members: cells[at.members],
          stale: cells[at.stale],
          bound: cells[at.time_lag_bound],
          find: group.toLowerCase(),
          trouble: TROUBLE[cells[at.worst]] ?? 2,
          lagRank: lag ?? -1,
          timeRank: time ?? -1,
        });
      }
    }
    this.#sortedBy = "";
    this.#choices();
    this.#totals();
    this.show();
  }

  /** Show what the address asks for. */
  show() {
    const asked = read();
    const sort = asked.sort in SORTS ? asked.sort : "trouble";
    if (this.#sortedBy !== sort) this.#all.sort(SORTS[(this.#sortedBy = sort)]);
    for (const id of ["q", "cluster", "status", "state"]) {
      if ($(id).value !== (asked[id] ?? "")) $(id).value = asked[id] ?? "";
    }
    const words = (asked.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const shown = this.#all.filter(
      (one) =>
        (!asked.cluster || one.cluster === asked.cluster) &&
        (!asked.status || one.status === asked.status || one.worst === asked.status) &&
        (!asked.state || one.state === asked.state) &&
        words.every((word) => one.find.includes(word)),
    );
    this.#shown = asked.order === "reverse" ? shown.reverse() : shown;
    this.#sorting(sort, asked.order === "reverse");
    $("table").setAttribute("aria-rowcount", this.#shown.length + 1);
    say($("shown"), this.#summary());
    this.#draw();
  }

  #summary() {
    if (!this.#live.clusters.size) return "Waiting for the first data …";
    if (!this.#all.length) return "No groups so far.";
    if (!this.#shown.length) return "No group matches. Clear the search or the filters to see all.";
    return `${number(this.#shown.length)} of ${number(this.#all.length)} groups`;
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
    const of = (key) => [...new Set(this.#all.map((one) => one[key]))].sort();
    choose($("cluster"), "All clusters", [...this.#live.clusters.keys()].sort());
    choose($("status"), "Any status", ["ERR", "WARN", "OK", "UNKNOWN", "STOP", "STALL", "REWIND"]);
    choose($("state"), "Any state", of("state"));
  }

  #totals() {
    const counts = {};
    for (const one of this.#all) counts[one.status] = (counts[one.status] ?? 0) + 1;
    const words = { ERR: "in error", WARN: "falling behind", UNKNOWN: "unknown", OK: "ok" };
    const parts = Object.entries(words).filter(([status]) => counts[status] || status === "OK");
    const texts = parts.map(([status, word]) => `${number(counts[status] ?? 0)} ${word}`);
    say($("totals"), texts.join(" · "));
    const bad = counts.ERR ? `(${counts.ERR}) ` : "";
    if (!read().group) document.title = `${bad}lagwatch`;
  }

  #draw() {
    const box = $("scroll");
    const height = narrow.matches ? 60 : 36;
    const count = Math.min(this.#shown.length, Math.ceil(box.clientHeight / height) + 2 * OVERSCAN);
    const total = `${this.#shown.length * height}px`;
    if (this.#pad.style.height !== total) this.#pad.style.height = total;
    while (this.#pool.length < count) this.#pool.push(this.#row());
    const top = Math.max(0, Math.min(Math.floor(box.scrollTop / height) - OVERSCAN, this.#shown.length - count));
    const size = this.#pool.length;
    const used = new Set();
    for (let index = top; index < top + count; index++) {
      used.add(index % size);
      this.#fill(this.#pool[index % size], index, height);
    }
    for (let slot = 0; slot < size; slot++) this.#pool[slot].element.hidden = !used.has(slot);
  }

  #row() {
    const cells = COLUMNS.map((column) => make("div", { role: "cell", class: column.cell }));
    const link = make("a", { href: "#" });
    cells[1].append(link);
    cells[2].classList.add("soft");
    cells[3].classList.add("soft");
    const element = make("div", { role: "row", class: "row" }, ...cells);
    $("scroll").append(element);
    return { element, cells, link, status: "" };
  }

  #fill(slot, index, height) {
    const one = this.#shown[index];
    const { element, cells, link } = slot;
    element.style.transform = `translateY(${index * height}px)`;
    element.setAttribute("aria-rowindex", index + 2);
    element.dataset.index = index;
    const stale = one.stale || this.#live.isStale(one.cluster);
    element.toggleAttribute("data-stale", stale);
    cells[0].title = stale ? "The data of this group are too old to be trusted." : "";
    if (slot.status !== one.worst) cells[0].replaceChildren(mark((slot.status = one.worst)));
    say(link, one.group);
    link.title = one.group;
    link.href = address({ group: one.group, of: one.cluster });
    say(cells[2], one.cluster);
    say(cells[3], one.state);
    say(cells[4], one.lag !== null && one.unknown ? `≥ ${number(one.lag)}` : number(one.lag));
    say(cells[5], bounded(one.time, one.bound));
    say(cells[6], number(one.members));
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
    const height = narrow.matches ? 60 : 36;
    if (index * height < box.scrollTop) box.scrollTop = index * height;
    if ((index + 1) * height > box.scrollTop + box.clientHeight) box.scrollTop = (index + 1) * height - box.clientHeight;
    this.#draw();
    this.#pool[index % this.#pool.length].link.focus({ preventScroll: true });
  }

  /** From the search field into the list. */
  enter() {
    this.#focus(0);
  }
}

function choose(select, all, values) {
  const wanted = read()[select.id] ?? "";
  const options = wanted && !values.includes(wanted) ? [...values, wanted] : values;
  if ([...select.options].slice(1).map((one) => one.value).join("\n") === options.join("\n") && select.options.length) return;
  select.replaceChildren(make("option", { value: "" }, all), ...options.map((one) => make("option", { value: one }, one)));
  select.value = wanted;
}
