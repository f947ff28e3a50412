// One group: the verdict with its evidence, the window, every partition, incidents, the past.

import { ask } from "./ask.js";
import { Chart } from "./charts.js";
import { durations } from "./mutes.js";
import { LEVELS, bounded, instant, make, mark, number, say, verdict } from "./words.js";
import { address, go, read } from "./place.js";

const RANGES = { "1h": "last hour", "6h": "last 6 hours", "24h": "last day", "7d": "last 7 days", "30d": "last 30 days" };
const MOST_ROWS = 200;
const MOST_TILES = 1000;
const HISTORY_EVERY_MS = 30_000;
const $ = (id) => document.getElementById(id);
const key = (one) => `${one.topic}/${one.partition}`;

export class Group {
  #live;
  #box = $("group");
  #shown = ""; // whose page is built
  #asking = false;
  #again = false;
  #parts = {};
  #historyAt = -Infinity;

  constructor(live) {
    this.#live = live;
  }

  /** Show the group of the address; builds the page when it is another one. */
  show() {
    const { group, of } = read();
    const wanted = JSON.stringify([of, group]);
    if (wanted !== this.#shown) {
      this.#shown = wanted;
      this.#build(group, of);
    }
    this.#historyAt = -Infinity;
    this.refresh();
  }

  leave() {
    this.#shown = "";
    this.#parts.window?.clear();
    this.#parts.past?.clear();
    this.#box.replaceChildren();
  }

  /** Ask for the group anew; one question at a time. */
  async refresh() {
    if (!this.#shown) return;
    if (this.#asking) {
      this.#again = true;
      return;
    }
    this.#asking = true;
    const whose = this.#shown;
    try {
      const { topic, partition } = read();
      const place = partition ? `?${new URLSearchParams({ topic: topic ?? "", partition })}` : "";
      const told = await ask(this.#path() + place);
      if (whose === this.#shown) this.#fill(told);
    } catch (error) {
      if (whose === this.#shown) this.#failed(error);
    } finally {
      this.#asking = false;
    }
    if (whose === this.#shown && performance.now() - this.#historyAt > HISTORY_EVERY_MS) {
      this.#historyAt = performance.now();
      this.#past();
      this.#incidents();
    }
    if (this.#again) {
      this.#again = false;
      this.refresh();
    }
  }

  #path() {
    const { group, of } = read();
    return `api/v1/clusters/${encodeURIComponent(of ?? "")}/groups/${encodeURIComponent(group)}`;
  }

  #build(group, cluster) {
    this.#parts.window?.clear();
    this.#parts.past?.clear();
    const back = make("a", { href: address({ group: "", of: "", topic: "", partition: "", range: "", from: "", to: "", curve: "" }), "data-go": "" }, "← All groups");
    const title = make("div", { class: "title" }, make("h2", { id: "group-name", tabindex: "-1" }, group), make("span", { id: "g-mark" }), make("span", { class: "soft" }, `on ${cluster ?? ""}`));
    const said = make("div", { class: "card verdict", id: "g-verdict" }, make("p", { class: "old", id: "g-old" }), make("p", { id: "g-sentence" }, "Asking …"), make("p", { class: "soft", id: "g-where" }));
    const facts = make("dl", { class: "card facts", id: "g-facts" });
    const heat = make("section", { class: "card", "aria-labelledby": "h-heat" }, make("h3", { id: "h-heat" }, "Partitions"), make("div", { id: "g-heat" }));
    const windowBox = make("div", { class: "chart", id: "g-window", role: "img", "aria-label": "The window of commits" });
    const held = make("section", { class: "card", "aria-labelledby": "h-window" }, make("h3", { id: "h-window" }, "Window"), make("p", { class: "empty", id: "g-place" }), windowBox);
    const past = this.#pastSection();
    const table = make("section", { class: "card", "aria-labelledby": "h-table" }, make("h3", { id: "h-table" }, "Owners and lags"), make("div", { class: "wide", id: "g-table", tabindex: "0", role: "group", "aria-label": "Owners and lags, scrollable" }), make("p", { class: "empty", id: "g-more" }));
    const incidents = this.#incidentSection();
    this.#box.replaceChildren(back, title, said, facts, make("div", { class: "pair" }, heat, held), past, table, incidents);
    this.#parts = {
      window: new Chart(windowBox, [
        { label: "committed offset", colour: "--link", scale: "count", points: true },
        { label: "log end at the commit", colour: "--second", scale: "count", dash: [6, 4], points: true },
      ]),
      past: new Chart($("g-past"), [
        { label: "lag", colour: "--link", scale: "count", zero: true },
        { label: "time lag", colour: "--second", scale: "seconds", dash: [6, 4] },
      ]),
    };
    document.title = `${group} – lagwatch`;
    $("group-name").focus({ preventScroll: true });
    this.#box.scrollTop = 0;
  }

  #failed(error) {
    if (error.status === 404) {
      say($("g-sentence"), "This group is not known. It may have been deleted, or nothing of it has been read yet.");
      $("g-facts").hidden = true;
    } else say($("g-where"), `Could not be asked just now: ${error.message}`);
  }

  #fill(told) {
    const worst = told.worst;
    $("g-facts").hidden = false;
    $("g-mark").replaceChildren(mark(worst?.status ?? told.status));
    $("g-verdict").dataset.level = LEVELS[worst?.status] ?? "unknown";
    say($("g-sentence"), worst ? verdict(worst) : "UNKNOWN: nothing has been committed.");
    $("g-mark").parentElement.toggleAttribute("data-stale", told.stale);
    say($("g-old"), told.stale ? `The data of this group are ${Math.round(told.data_age_s)} s old.` : "");
    const many = told.partitions.length > 1 && worst;
    say($("g-where"), many ? `This is ${key(worst)}, the worst of ${number(told.partitions.length)} partitions.` : "");
    this.#facts(told);
    this.#heat(told);
    this.#window(told);
    this.#table(told);
  }

  #facts(told) {
    const lag = told.lag !== null && told.unknown_partitions ? `≥ ${number(told.lag)}` : number(told.lag);
    const facts = [
      ["Lag", lag],
      ["Time lag", bounded(told.time_lag_s, told.time_lag_bound)],
      ["State", told.info?.state ?? "unknown"],
      ["Members", number(told.info?.members ?? null)],
      ["Type", told.info?.type ?? "unknown"],
      ["Assignor", told.info?.assignor || "none"],
      ["Windows full", `${Math.round(told.complete * 100)} %`],
      ["Judged", instant(told.at_ms)],
    ];
    const box = $("g-facts");
    while (box.children.length < facts.length) box.append(make("div", {}, make("dt"), make("dd")));
    facts.forEach(([name, value], index) => {
      const [term, definition] = box.children[index].children;
      say(term, name);
      say(definition, value);
    });
  }

  #heat(told) {
    const box = $("g-heat");
    const tiles = worstOf(told.partitions, MOST_TILES);
    const places = tiles.map(key).join("\n");
    if (box.dataset.places !== places) {
      box.dataset.places = places;
      const topics = grouped(tiles);
      const left = told.partitions.length - tiles.length;
      box.replaceChildren(
        ...[...topics].map(([topic, partitions]) =>
          make("div", { class: "topic" }, make("p", {}, topic),
            make("div", { class: "heat" }, ...partitions.map((one) =>
              make("button", { type: "button", onclick: () => this.#choose(one) }, make("span", {}, String(one.partition)), make("i")))))),
        left ? make("p", { class: "empty" }, `and ${number(left)} more that fare better`) : "",
      );
    }
    const most = Math.max(1, ...told.partitions.map((one) => one.lag ?? 0));
    const chosen = told.window ? key(told.window) : "";
    const buttons = box.querySelectorAll("button");
    tiles.forEach((one, index) => {
      const button = buttons[index];
      const text = `${one.topic} partition ${one.partition}: ${one.headline}, lag ${number(one.lag)}, time lag ${bounded(one.time_lag_s, one.time_lag_bound)}, owner ${owner(one)}`;
      button.dataset.level = one.lag === null ? "unknown" : (LEVELS[one.status] ?? "unknown");
      if (button.title !== text) {
        button.title = text;
        button.setAttribute("aria-label", text);
      }
      button.setAttribute("aria-pressed", String(key(one) === chosen));
      button.lastChild.style.width = `${Math.round(((one.lag ?? 0) / most) * 100)}%`;
    });
  }

  #choose(one) {
    go({ topic: one.topic, partition: String(one.partition) }, { replace: true });
  }

  #window(told) {
    const commits = told.window?.commits ?? [];
    const one = told.window && told.partitions.find((each) => key(each) === key(told.window));
    $("g-window").hidden = commits.length === 0;
    if (!one || !commits.length) {
      say($("g-place"), one ? `${key(one)}: ${one.text}.` : "Nothing has been committed.");
      this.#parts.window.clear();
      return;
    }
    const lost = one.lost ? ` Lost to retention: ${number(one.lost)} messages.` : "";
    const said = told.worst && key(told.worst) === key(one) ? "" : ` ${verdict(one)}`;
    say($("g-place"), `${key(one)}: ${commits.length} of ${told.window.slots} commits.${said}${lost}`);
    $("g-window").setAttribute("aria-label", `Committed offsets from ${number(commits[0].offset)} to ${number(commits.at(-1).offset)}, lag from ${number(commits[0].lag)} to ${number(commits.at(-1).lag)}`);
    this.#parts.window.show([
      commits.map((each) => each.commit_ms / 1000),
      commits.map((each) => each.offset),
      commits.map((each) => (each.lag === null ? null : each.offset + each.lag)),
    ]);
  }

  #table(told) {
    const rows = told.partitions.toSorted(byBadness).slice(0, MOST_ROWS);
    const cells = (one) => [
      one.topic, one.partition, one.headline, number(one.lag), bounded(one.time_lag_s, one.time_lag_bound), one.committed === null ? "–" : number(one.committed),
      one.commit_ms === null ? "–" : instant(one.commit_ms), owner(one),
    ];
    const titles = ["Topic", "Partition", "Verdict", "Lag", "Time lag", "Committed", "Last commit", "Owner"];
    const right = new Set([1, 3, 4, 5]);
    let body = $("g-table").querySelector("tbody");
    if (!body) {
      body = make("tbody");
      const head = titles.map((title, index) => make("th", { scope: "col", class: right.has(index) ? "number" : "" }, title));
      $("g-table").replaceChildren(make("table", { class: "grid" }, make("thead", {}, make("tr", {}, ...head)), body));
    }
    while (body.children.length > rows.length) body.lastChild.remove();
    while (body.children.length < rows.length) body.append(make("tr", {}, ...titles.map((_, index) => make("td", { class: right.has(index) ? "number" : "" }))));
    rows.forEach((one, index) => cells(one).forEach((text, column) => say(body.children[index].children[column], String(text))));
    const more = told.partitions.length - rows.length;
    say($("g-more"), more > 0 ? `and ${number(more)} more that fare better.` : "");
  }

  // the past

  #pastSection() {
    const asked = read();
    const range = make("select", { id: "range", onchange: () => go({ range: $("range").value, from: "", to: "" }, { replace: true }) },
      ...Object.entries(RANGES).map(([value, word]) => make("option", { value }, word)), make("option", { value: "own" }, "from … to …"));
    range.value = asked.from ? "own" : (asked.range in RANGES ? asked.range : "6h");
    const own = () => $("from").value && go({ range: "own", from: $("from").value, to: $("to").value }, { replace: true });
    const curve = make("select", { id: "curve", onchange: () => go({ curve: $("curve").value }, { replace: true }) },
      make("option", { value: "" }, "whole group"), make("option", { value: "partition" }, "chosen partition"));
    curve.value = asked.curve ?? "";
    return make("section", { class: "card", id: "past", "aria-labelledby": "h-past" },
      make("h3", { id: "h-past" }, "Lag and time lag over time"),
      make("div", { class: "tools" },
        make("label", {}, "Range", range),
        make("label", { class: "own" }, "From", make("input", { id: "from", type: "datetime-local", value: asked.from, onchange: own })),
        make("label", { class: "own" }, "To", make("input", { id: "to", type: "datetime-local", value: asked.to, onchange: own })),
        make("label", {}, "Of", curve)),
      make("p", { class: "empty", id: "g-past-said", role: "status" }, "Asking …"),
      make("div", { class: "chart", id: "g-past", role: "img", "aria-label": "Lag and time lag over time" }));
  }

  async #past() {
    const asked = read();
    const whose = this.#shown;
    const own = asked.range === "own";
    for (const label of document.querySelectorAll(".own")) label.hidden = $("range").value !== "own";
    if (own && !asked.from) return;
    const query = new URLSearchParams(
      own
        ? { from: new Date(asked.from).toISOString(), to: asked.to ? new Date(asked.to).toISOString() : "now" }
        : { from: `-${asked.range in RANGES ? asked.range : "6h"}`, to: "now" },
    );
    const part = asked.curve === "partition" && asked.partition ? `/topics/${encodeURIComponent(asked.topic)}/partitions/${asked.partition}` : "";
    try {
      const told = await ask(`${this.#path()}${part}/history?${query}`);
      if (whose !== this.#shown) return;
      const points = told.points;
      $("g-past").hidden = points.length === 0;
      say($("g-past-said"), points.length ? "" : "Nothing was recorded in this time.");
      if (!points.length) this.#parts.past.clear();
      else
        this.#parts.past.show([
          points.map((one) => one.at_ms / 1000),
          points.map((one) => one.lag_max ?? one.total_lag ?? one.lag ?? null),
          points.map((one) => one.time_lag_max_s ?? one.time_lag_s ?? null),
        ]);
    } catch (error) {
      if (whose !== this.#shown) return;
      // an unknown group may have a past in another range; without a history there is none
      if (error.status === 404 && !error.message.includes("is not known")) $("past").hidden = true;
      else say($("g-past-said"), `The history cannot be read: ${error.message}`);
    }
  }

  // incidents and mutes

  #incidentSection() {
    return make("section", { class: "card", id: "incidents", "aria-labelledby": "h-incidents", hidden: true },
      make("h3", { id: "h-incidents" }, "Incidents"),
      make("form", { class: "tools", onsubmit: (event) => this.#mute(event) },
        make("label", {}, "Mute for", make("select", { id: "mute-for" }, ...durations())),
        make("label", {}, "Reason", make("input", { id: "mute-reason", required: true, maxlength: "1000", autocomplete: "off" })),
        make("button", { type: "submit", id: "mute" }, "Mute this group")),
      make("p", { class: "empty", id: "mute-said", role: "status" }),
      make("ul", { class: "list", id: "mutes", "aria-label": "Mutes" }),
      make("ul", { class: "list", id: "incident-list", "aria-label": "Incidents" }));
  }

  async #mute(event) {
    event.preventDefault();
    const { group, of } = read();
    const order = { cluster: of, group, reason: $("mute-reason").value, duration_s: Number($("mute-for").value) };
    await this.#change("api/v1/alerts/mutes", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) }, "Muted.");
    $("mute-reason").value = "";
  }

  async #change(path, options, done) {
    try {
      await ask(path, options);
      say($("mute-said"), done);
    } catch (error) {
      say($("mute-said"), `That did not work: ${error.message}`);
    }
    await this.#incidents();
  }

  async #incidents() {
    const { group, of } = read();
    const whose = this.#shown;
    try {
      const [told, muted] = await Promise.all([
        ask(`api/v1/alerts/incidents?${new URLSearchParams({ cluster: of ?? "", group, limit: 20 })}`),
        ask("api/v1/alerts/mutes"),
      ]);
      if (whose !== this.#shown) return;
      $("incidents").hidden = false;
      const mine = muted.mutes.filter((one) => one.group === group && (one.cluster === of || one.cluster === ""));
      $("mutes").replaceChildren(...mine.map((one) => this.#muteLine(one)));
      const lines = told.incidents.map(incidentLine);
      $("incident-list").replaceChildren(...(lines.length ? lines : [make("li", { class: "empty" }, "No incident so far.")]));
    } catch (error) {
      if (error.status !== 404 && whose === this.#shown) say($("mute-said"), `Incidents cannot be read: ${error.message}`);
    }
  }

  #muteLine(one) {
    const end = one.ends_ms === null ? "" : ` until ${instant(one.ends_ms)}`;
    const own = !one.id.startsWith("config:");
    const path = `api/v1/alerts/mutes/${encodeURIComponent(one.id)}`;
    const button = make("button", { type: "button", onclick: () => this.#change(path, { method: "DELETE" }, "The mute has ended.") }, "Unmute");
    return make("li", {}, `${one.active ? "Muted" : "To be muted"}${end}: ${one.reason} `, own ? button : null);
  }
}

function incidentLine(one) {
  const end = one.closed_ms === null ? "still open" : `closed ${instant(one.closed_ms)}`;
  return make("li", {}, `${instant(one.since_ms)} · ${one.severity} · ${end} · policy ${one.policy}`);
}

/** The worst ones, if there are too many; in the order in which they came. */
function worstOf(partitions, most) {
  if (partitions.length <= most) return partitions;
  const kept = new Set(partitions.toSorted(byBadness).slice(0, most));
  return partitions.filter((one) => kept.has(one));
}

const byBadness = (a, b) => rank(b) - rank(a) || (b.lag ?? -1) - (a.lag ?? -1);
const rank = (one) => ({ REWIND: 4, STALL: 4, STOP: 4, WARN: 3, UNKNOWN: 2 })[one.status] ?? 1;

function owner(one) {
  return [one.client_id, one.owner].filter(Boolean).join(" ") || "nobody";
}

function grouped(partitions) {
  const found = new Map();
  for (const one of partitions) {
    if (!found.has(one.topic)) found.set(one.topic, []);
    found.get(one.topic).push(one);
  }
  return found;
}
