// One group: the verdict with its evidence, the window, every partition, incidents, the past.

import { inTroubleSince } from "./alerts.js";
import { ask, order, segment } from "./ask.js";
import { Chart } from "./charts.js";
import { Incidents } from "./incidents.js";
import { instant } from "./instants.js";
import { fillMembers, membersSection } from "./members.js";
import { Past } from "./past.js";
import { LEVELS, REASONS, bounded, catchUp, duration, entitle, hint, lagOfGroup, make, mark, member, number, printable, rate, say, verdict } from "./words.js";
import { LIST, address, go, read } from "./place.js";
import { mayOperate } from "./session.js";

const MOST_ROWS = 200;
const MOST_TILES = 1000;
const HISTORY_EVERY_MS = 30_000;
const $ = (id) => document.getElementById(id);
const key = (part) => `${part.topic}/${part.partition}`;
const asOf = ({ time_lag_at_ms: at, time_lag_reason: reason }) => [at === null ? "" : `as of ${instant(at)}`, REASONS[reason]].filter(Boolean).join("; ");

export class Group {
  #live;
  #box = $("group");
  #shown = ""; // whose page is built
  #asking = false;
  #again = false;
  #parts = {};
  #past = new Past(() => this.#path());
  #alerts;
  #incidents;
  #historyAt = -Infinity;
  #last = null; // the last answer about the group that is shown
  #incident = ""; // its open incident, as it was when the incidents were listed

  constructor(live, alerts) {
    this.#live = live;
    this.#alerts = alerts;
    this.#incidents = new Incidents(alerts);
    alerts.onChange(() => {
      if (!this.#shown || this.#openIncident() === this.#incident) return;
      this.#historyAt = -Infinity; // it has opened, changed or ended: what is listed is old
      this.refresh();
    });
  }

  #openIncident() {
    const { group, of } = read();
    const { id, severity, acknowledged_ms, healed_ms, muted } = this.#alerts.incident(of, group) ?? {};
    return JSON.stringify([id, severity, acknowledged_ms, healed_ms, muted]); // its figures change all the time
  }

  /** Show the group of the address; builds the page when it is another one. */
  show() {
    const { group, of } = read();
    const wanted = JSON.stringify([of, group]);
    if (wanted !== this.#shown) {
      this.#shown = wanted;
      this.#last = null;
      this.#build(group, of);
    }
    this.#historyAt = -Infinity;
    this.refresh();
  }

  leave() {
    this.#shown = "";
    this.#parts.window?.clear();
    this.#past.clear();
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
      const answer = await ask(this.#path() + place);
      if (whose === this.#shown) this.#fill(answer);
    } catch (error) {
      if (whose === this.#shown) this.#failed(error);
    } finally {
      this.#asking = false;
    }
    if (whose === this.#shown && performance.now() - this.#historyAt > HISTORY_EVERY_MS) {
      this.#historyAt = performance.now();
      this.#incident = this.#openIncident();
      const current = () => whose === this.#shown;
      this.#past.load(current);
      this.#incidents.load(current);
    }
    if (this.#again) {
      this.#again = false;
      this.refresh();
    }
  }

  #path() {
    const { group, of } = read();
    return `api/v1/clusters/${encodeURIComponent(of ?? "")}/groups/${segment(group)}`;
  }

  #build(group, cluster) {
    this.#parts.window?.clear();
    this.#past.clear();
    const back = make("a", { href: address(LIST), "data-go": "" }, "← All groups");
    const title = make("div", { class: "title" }, make("h2", { id: "group-name", tabindex: "-1", title: group }, group), make("button", { type: "button", id: "whole-name", hidden: true, onclick: wholeName }, "Whole name"), make("span", { id: "g-mark" }), make("span", { class: "soft" }, `on ${cluster ?? ""}`));
    const said = make("div", { class: "card verdict", id: "g-verdict" }, make("p", { class: "old", id: "g-old" }), make("p", { class: "old", id: "g-lost" }), make("p", { id: "g-sentence" }, "Asking …"), make("p", { class: "soft", id: "g-where" }), make("dl", { class: "facts", id: "g-facts" }),
      make("div", { id: "g-cause-box", hidden: true }, make("h3", { id: "g-cause-name" }), make("p", { id: "g-cause" }), make("p", { class: "soft", id: "g-refuted" })),
      make("div", { id: "g-to-do-box", hidden: true }, make("h3", {}, "What to do"), make("ol", { id: "g-to-do" })),
      make("p", { class: "links" }, make("button", { type: "button", id: "lost-seen", hidden: true, onclick: () => this.#acknowledgeLoss() }, "Acknowledge the loss"), make("span", { id: "g-runbook" }), make("button", { type: "button", id: "share", onclick: share }, "Copy link"), make("span", { id: "shared", role: "status" })));
    const details = make("dl", { class: "card facts", id: "g-details" });
    const heat = make("section", { class: "card", "aria-labelledby": "h-heat" }, make("h3", { id: "h-heat" }, "Partitions"), make("div", { id: "g-heat" }));
    const windowBox = make("div", { class: "chart", id: "g-window", role: "img", "aria-label": "The window of commits" });
    const held = make("section", { class: "card", "aria-labelledby": "h-window" }, make("h3", { id: "h-window" }, "Window"), make("p", { class: "empty", id: "g-place" }), windowBox);
    const past = this.#past.section();
    const table = make("section", { class: "card", "aria-labelledby": "h-table" }, make("h3", { id: "h-table" }, "Owners and lags"), make("div", { class: "wide", id: "g-table", tabindex: "0", role: "group", "aria-label": "Owners and lags, scrollable" }), make("p", { class: "empty", id: "g-more" }));
    const incidents = this.#incidents.section();
    this.#box.replaceChildren(back, title, said, details, incidents, past, make("div", { class: "pair" }, heat, held), membersSection(), table);
    this.#parts = {
      window: new Chart(windowBox, [
        { label: "committed offset", colour: "--link", scale: "count", points: true },
        { label: "log end at the commit", colour: "--second", scale: "count", dash: [6, 4], points: true },
      ]),
    };
    entitle(`${group} – lagwatch`);
    $("whole-name").hidden = $("group-name").scrollHeight <= $("group-name").clientHeight + 1;
    $("group-name").focus({ preventScroll: true });
    this.#box.scrollTop = 0;
  }

  async #acknowledgeLoss() {
    const whose = this.#shown;
    try {
      await order(`${this.#path()}/losses/acknowledge`, {});
      if (whose === this.#shown) say($("shared"), "The loss is no longer shown; it stays counted.");
    } catch (error) {
      if (whose === this.#shown) say($("shared"), `That did not work: ${error.message}`);
    }
    if (whose === this.#shown) this.refresh();
  }

  #failed(error) {
    if (error.status === 404) {
      const { of } = read();
      say($("g-sentence"), this.#live.isRead(of) ? "This group is not known. It may have been deleted, or nothing of it has been read yet." : `This group is not known yet: lagwatch has not read ${of} whole since it started.`);
      for (const id of ["g-old", "g-lost", "g-where"]) say($(id), "");
      $("g-mark").replaceChildren();
      $("g-verdict").dataset.level = "unknown";
      for (const id of ["g-cause-box", "g-to-do-box", "lost-seen"]) $(id).hidden = true;
      this.#known(false);
      this.#incidents.offer(false); // a mute of a name that does not exist mutes nothing
      return;
    }
    say($("g-where"), `Could not be asked just now: ${error.message}`);
    // what is shown is no longer what is, although it was fresh when it came
    if (!this.#last) return;
    const was = { ...this.#last, stale: true };
    this.#verdict(was, `lagwatch does not answer. This is of ${instant(was.at_ms)}.`);
    this.#facts(was);
  }

  /** Show what is known of the present, or hide it: of a group that is gone nothing of it is true. */
  #known(known) {
    $("g-facts").hidden = $("g-details").hidden = !known;
    for (const part of this.#box.querySelectorAll(".pair, section[aria-labelledby=h-members], section[aria-labelledby=h-table]")) part.hidden = !known;
  }

  /** The verdict, or what it was; `old` says how old the data are. */
  #verdict(answer, old) {
    const worst = answer.worst;
    $("g-mark").replaceChildren(mark(worst?.status ?? answer.status, answer.stale));
    $("g-verdict").dataset.level = answer.stale ? "unknown" : (LEVELS[worst?.status] ?? "unknown");
    const { since, atLeast } = this.#inTroubleSince(answer);
    // the incident may know that it began before lagwatch saw it
    const said = worst ? verdict({ ...worst, at_least: worst.at_least || (atLeast && since === worst.since_ms) }) : "UNKNOWN: nothing has been committed.";
    say($("g-sentence"), answer.stale ? `Last known: ${said}` : said);
    $("g-mark").parentElement.toggleAttribute("data-stale", answer.stale);
    say($("g-old"), old);
  }

  #fill(answer) {
    const worst = answer.worst;
    if (this.#last && this.#last.stale !== answer.stale) this.#historyAt = -Infinity; // what incidents say "now" is old, or is known again
    this.#last = answer;
    this.#known(true);
    this.#incidents.offer(true);
    this.#verdict(answer, answer.stale ? `The data of this group are ${duration(Math.round(answer.data_age_s))} old.` : "");
    say($("g-lost"), worst?.rule === "records_lost" || !answer.lost ? "" : `MESSAGES LOST: ${answer.lost_is === "upper_bound" ? "up to " : ""}${number(answer.lost)} ${answer.lost === 1 ? "was" : "were"} deleted before the group read them.`);
    $("lost-seen").hidden = !answer.lost || !mayOperate();
    const many = answer.partitions.length > 1 && worst;
    say($("g-where"), many ? `This is ${key(worst)}, the worst of ${number(answer.partitions.length)} partitions.` : "");
    this.#cause(answer.cause);
    const steps = answer.to_do ?? [];
    $("g-to-do-box").hidden = !steps.length;
    if ($("g-to-do").children.length !== steps.length || $("g-to-do").textContent !== steps.join("")) {
      $("g-to-do").replaceChildren(...steps.map((step) => make("li", {}, step)));
    }
    // a rate is of the last minute: who has just left is no program that assigns partitions itself
    fillMembers(answer.members, answer.status === "OK" ? answer.consumed_per_s : null);
    this.#facts(answer);
    this.#heat(answer);
    this.#window(answer);
    this.#table(answer);
  }

  #inTroubleSince(answer) {
    return inTroubleSince(answer.since_ms, answer.worst?.at_least ?? false, this.#alerts.incident(answer.cluster, answer.group));
  }

  /** Of a group whose verdict is good: it may miss a limit, or its incident waits to be closed. */
  #openIncidentSince({ cluster, group }) {
    const incident = this.#alerts.incident(cluster, group);
    if (!incident) return "–";
    const { since, atLeast } = inTroubleSince(Infinity, false, incident);
    return `– (open incident since ${atLeast ? "at least " : ""}${instant(since)})`;
  }

  /** Why it has its verdict, how far that can be relied on, and how to check it. */
  #cause(cause) {
    $("g-cause-box").hidden = !cause;
    if (!cause) return;
    say($("g-cause-name"), cause.name ? `Cause (${cause.certainty}): ${cause.name.replaceAll("_", " ")}` : "Cause: not known");
    say($("g-cause"), sentence(cause.text));
    say($("g-refuted"), cause.refuted_by ? `It is another cause if: ${cause.refuted_by}` : "");
  }

  #facts(answer) {
    const left = answer.left_behind_lag ? `${number(answer.left_behind_lag)} of it in topics left behind` : "";
    const { since, atLeast } = this.#inTroubleSince(answer);
    const facts = [
      ["Lag", lagOfGroup(answer.lag, answer.unknown_partitions), [readable(answer.lag, answer.readable_lag), left, notKnown(answer.partitions)].filter(Boolean).join("; ")],
      ["Time lag", bounded(answer.time_lag_s, answer.time_lag_bound), asOf(answer)],
      ["In trouble since", since === null ? this.#openIncidentSince(answer) : `${atLeast ? "at least " : ""}${instant(since)}`],
      ...(answer.stale ? [] : speeds(answer)), // old data say nothing of now
    ];
    fillFacts($("g-facts"), facts);
    fillFacts($("g-details"), [
      ["State", answer.info?.state ?? "unknown"],
      ["Members", number(answer.info?.members ?? null)],
      ["Type", answer.info?.type ?? "unknown"],
      ["Assignor", answer.info?.assignor || "none"],
      ["Windows full", `${Math.round(answer.complete * 100)} %`],
      answer.stale ? ["Data of", instant(answer.at_ms - answer.data_age_s * 1000)] : ["Judged", instant(answer.at_ms)],
    ]);
  }

  #heat(answer) {
    const box = $("g-heat");
    const tiles = worstOf(answer.partitions, MOST_TILES);
    const places = tiles.map(key).join("\n");
    if (box.dataset.places !== places) {
      box.dataset.places = places;
      const topics = grouped(tiles);
      const left = answer.partitions.length - tiles.length;
      box.replaceChildren(
        ...[...topics].map(([topic, partitions]) =>
          make("div", { class: "topic" }, make("p", {}, topic),
            make("div", { class: "heat" }, ...partitions.map((part) =>
              make("button", { type: "button", onclick: () => this.#choose(part) }, make("span", {}, String(part.partition)), make("i")))))),
        left ? make("p", { class: "empty" }, `and ${number(left)} more that fare better`) : "",
      );
    }
    const most = Math.max(1, ...answer.partitions.map((part) => part.lag ?? 0));
    const chosen = answer.window ? key(answer.window) : "";
    const buttons = box.querySelectorAll("button");
    tiles.forEach((part, index) => {
      const button = buttons[index];
      const text = `${part.topic} partition ${part.partition}: ${headline(part)}, lag ${lagOf(part)}, time lag ${bounded(part.time_lag_s, part.time_lag_bound)}, owner ${owner(part)}`;
      button.dataset.level = part.lag === null ? "unknown" : (LEVELS[part.status] ?? "unknown");
      if (button.title !== printable(text)) {
        hint(button, text);
        button.setAttribute("aria-label", printable(text));
      }
      button.setAttribute("aria-pressed", String(key(part) === chosen));
      button.lastChild.style.width = `${Math.round(((part.lag ?? 0) / most) * 100)}%`;
    });
  }

  #choose(part) {
    go({ topic: part.topic, partition: String(part.partition) }, { replace: true });
  }

  #window(answer) {
    const commits = answer.window?.commits ?? [];
    const part = answer.window && answer.partitions.find((each) => key(each) === key(answer.window));
    $("g-window").hidden = commits.length === 0;
    if (!part || !commits.length) {
      say($("g-place"), part ? `${key(part)}: ${part.text}.` : "Nothing has been committed.");
      this.#parts.window.clear();
      return;
    }
    const lost = part.lost ? ` Lost to retention: ${number(part.lost)} messages.` : "";
    const said = answer.worst && key(answer.worst) === key(part) ? "" : ` ${verdict(part)}`;
    say($("g-place"), `${key(part)}: ${commits.length} of ${answer.window.slots} commits.${said}${lost}`);
    $("g-window").setAttribute("aria-label", `Committed offsets from ${number(commits[0].offset)} to ${number(commits.at(-1).offset)}, lag from ${number(commits[0].lag)} to ${number(commits.at(-1).lag)}`);
    this.#parts.window.show([
      commits.map((each) => each.commit_ms / 1000),
      commits.map((each) => each.offset),
      commits.map((each) => (each.lag === null ? null : each.offset + each.lag)),
    ]);
  }

  #table(answer) {
    const rows = answer.partitions.toSorted(byBadness).slice(0, MOST_ROWS);
    const cells = (part) => [
      part.topic, part.partition, headline(part), lagOf(part), bounded(part.time_lag_s, part.time_lag_bound), part.committed === null ? "–" : number(part.committed),
      part.commit_ms === null ? "–" : instant(part.commit_ms), owner(part),
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
    rows.forEach((part, index) => cells(part).forEach((text, column) => say(body.children[index].children[column], String(text))));
    const more = answer.partitions.length - rows.length;
    say($("g-more"), more > 0 ? `and ${number(more)} more that fare better.` : "");
  }
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/** The verdict on a partition, and the reason where it or the lag is not known. */
const headline = (part) => (isUnknown(part) || part.lag === null ? `${part.headline}: ${part.text}` : part.headline);

/** Is the verdict, or the lag of a partition that was committed to, not known? */
const isUnknown = (part) => part.status === "UNKNOWN" || part.lag === null && part.rule !== "never_committed";

/** Why the lags of some partitions are not counted; "" where all are known. */
function notKnown(partitions) {
  const reasons = Map.groupBy(partitions.filter((part) => part.lag === null && isUnknown(part)), (part) => part.text);
  return [...reasons].map(([text, those]) => `${number(those.length)} of ${number(partitions.length)} partitions not counted: ${text}`).join("; ");
}

/** What of a lag can be read, where that is less; verdicts count that alone. "" where it is all. */
function readable(lag, part) {
  if (lag === null || part === null || part >= lag) return "";
  return `${number(part)} of it can be read: the rest was deleted, or is marks of transactions or behind an open one`;
}

/** How fast it reads, and when it will have caught up: facts. */
const speeds = (answer) => [
  ["Produced", ...speed(answer, "produced_per_s")],
  ["Read", ...speed(answer, "consumed_per_s")],
  ["Caught up in", catchUp(answer)],
  ...(answer.loss_in_s === null ? [] : [["Loses messages in", duration(answer.loss_in_s)]]),
];

/** The lag of a partition, and what of it can be read where that is less. */
const lagOf = ({ lag, readable_lag: part }) => (readable(lag, part) ? `${number(lag)} (${number(part)} can be read)` : number(lag));

/** A rate of the group and a note: that of the measured partitions, where most are, and why others are not. */
function speed({ partitions, ...whole }, key) {
  if (whole[key] !== null) return [rate(whole[key]), ""];
  const committed = partitions.filter((part) => part.rule !== "never_committed" && part.rule !== "never_commits");
  const missing = committed.filter((part) => part[key] === null);
  const known = committed.length - missing.length;
  const sum = known * 2 > committed.length ? committed.reduce((total, part) => total + part[key], 0) : null;
  const why = missing.every((part) => part.lag === null) ? "log end not known" : "too few commits seen";
  const note = `${sum === null ? "" : "not measured in "}${number(missing.length)} of ${number(committed.length)} partitions: ${why}`;
  return [sum === null ? rate(null) : `at least ${rate(sum)}`, missing.length ? note : ""];
}

/** Facts: [name, value, note]. */
function fillFacts(box, facts) {
  while (box.children.length > facts.length) box.lastChild.remove();
  while (box.children.length < facts.length) box.append(make("div", {}, make("dt"), make("dd", {}, make("span"), make("small"))));
  facts.forEach(([name, value, note = ""], index) => {
    const [term, definition] = box.children[index].children;
    say(term, name);
    say(definition.firstChild, value);
    say(definition.lastChild, note);
  });
}

/** The worst ones, if there are too many; in the order in which they came. */
function worstOf(partitions, most) {
  if (partitions.length <= most) return partitions;
  const kept = new Set(partitions.toSorted(byBadness).slice(0, most));
  return partitions.filter((part) => kept.has(part));
}

export const byBadness = (a, b) => rank(b) - rank(a) || (b.lag ?? -1) - (a.lag ?? -1);
const rank = (part) => ({ ERR: 5, REWIND: 4, STALL: 4, STOP: 4, WARN: 3, UNKNOWN: 2 })[part.status] ?? 1;

const owner = (part) => member(part.client_id, part.owner) || "no member";

function grouped(partitions) {
  const found = new Map();
  for (const part of partitions) {
    if (!found.has(part.topic)) found.set(part.topic, []);
    found.get(part.topic).push(part);
  }
  return found;
}

/** Show a name that is clamped in full. */
function wholeName() {
  $("group-name").classList.add("whole");
  $("whole-name").hidden = true;
  $("group-name").focus();
}

/** Copy the address of what is shown. */
async function share() {
  try {
    await navigator.clipboard.writeText(location.href);
    say($("shared"), "Copied.");
  } catch {
    say($("shared"), location.href); // only pages over HTTPS and of this machine may copy
  }
}
