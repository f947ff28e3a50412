// What is wrong with the clusters: one line over every page, and the details on demand.

import { ACKNOWLEDGED, acknowledge, incidentLine } from "./incidents.js";
import { instant } from "./instants.js";
import { duration, make, say } from "./words.js";

const $ = (id) => document.getElementById(id);

/** Since when there have been no fresh data, without the reason; "" for a cluster that is ready. `incident`: its open one. */
export function outage({ state, receivedAt }, incident) {
  if (state.ready) return "";
  if (state.began_ms !== null) return `${state.unreachable ? "unreachable" : "not ready"} since lagwatch started at ${instant(state.began_ms)}${trouble(incident, state.began_ms)}`;
  if (state.unreachable) return `unreachable, no data since ${instant(state.since_ms)}`;
  if (!state.stale || state.round === null) return "not ready";
  return `data ${duration(Math.round(age(state, receivedAt)))} old`;
}

/** An incident that is older than this process knows more than it does. */
const trouble = (incident, beganMs) => (incident && incident.since_ms < beganMs ? `, in trouble since ${incident.since_at_least ? "at least " : ""}${instant(incident.since_ms)}` : "");

/** While lagwatch did not run, Kafka need not have been away: the data of the process before have an end of their own. */
const before = ({ since_ms: last, began_ms: began }) => (began !== null && last < began ? `, its last data before are of ${instant(last)}` : "");

/** Why there are none. */
export const reason = ({ state }) => state.reason || "the reason is not known";

const age = (state, receivedAt) => (state.data_age_s ?? 0) + (performance.now() - receivedAt) / 1000;

export class Troubles {
  #live;
  #alerts;
  #box = $("troubles");
  #said = make("span");
  #list = make("div", { class: "details", tabindex: "0", role: "group", "aria-label": "Details, scrollable" });

  #done = make("p", { role: "status" });

  constructor(live, alerts) {
    this.#live = live;
    this.#alerts = alerts;
    this.#box.replaceChildren(make("details", {}, make("summary", {}, this.#said), this.#done, this.#list));
    alerts.onChange(() => this.show());
  }

  open() {
    this.#box.firstChild.open = true;
    this.#box.querySelector("summary").focus();
  }

  /** Show what is known now; ages go on. */
  show() {
    const all = [...this.#live.clusters.values()].map((cluster) => ({ ...cluster, outage: outage(cluster, this.#alerts.incidentOf(cluster.state.cluster)), others: others(cluster.state) }));
    const out = all.filter((cluster) => cluster.outage);
    const troubled = all.filter((cluster) => cluster.outage || cluster.others.length);
    this.#box.hidden = !troubled.length;
    this.#box.dataset.level = out.length ? "err" : "warn";
    // ages tick and texts of errors count up: only a cluster that comes or goes is announced
    const which = JSON.stringify(troubled.map(({ state }) => [state.cluster, state.ready, state.stale, state.unreachable]));
    this.#said.setAttribute("aria-live", this.#box.dataset.shown === which ? "off" : "polite");
    this.#box.dataset.shown = which;
    say(this.#said, out.length ? outages(out) : problems(troubled));
    this.#fill(troubled);
  }

  #fill(troubled) {
    const texts = troubled.map((cluster) => ({ heading: cluster.state.cluster, lines: [...(cluster.outage ? [`${cluster.outage}${before(cluster.state)}: ${reason(cluster)}`] : []), ...cluster.others] }));
    while (this.#list.children.length > texts.length) this.#list.lastChild.remove();
    while (this.#list.children.length < texts.length) this.#list.append(make("section", {}, make("h2"), make("ul"), make("ul", { class: "list", "aria-label": "Incidents" })));
    texts.forEach(({ heading, lines }, index) => {
      const [name, list, incidents] = this.#list.children[index].children;
      say(name, heading);
      this.#incident(incidents, this.#alerts.incidentOf(heading));
      while (list.children.length > lines.length) list.lastChild.remove();
      while (list.children.length < lines.length) list.append(make("li"));
      lines.forEach((text, at) => say(list.children[at], text));
    });
  }

  /** The open incident of a cluster itself, to be acknowledged here: it has no other place on the page. */
  #incident(list, incident) {
    const shown = JSON.stringify(incident ?? null);
    if (list.dataset.shown === shown) return;
    list.dataset.shown = shown;
    list.replaceChildren(...(incident ? [incidentLine(incident, (id) => this.#acknowledge(id))] : []));
    list.hidden = !incident;
  }

  async #acknowledge(id) {
    try {
      await acknowledge(id);
      say(this.#done, ACKNOWLEDGED);
    } catch (error) {
      say(this.#done, `That did not work: ${error.message}`);
    }
    await this.#alerts.refresh();
    this.#box.querySelector("summary").focus(); // the button has gone
  }
}

/** One line: the cluster and its outage; of several their number and names, the reasons on demand. */
function outages(out) {
  if (out.length === 1) return `${out[0].state.cluster}: ${out[0].outage}: ${core(reason(out[0]))}`;
  const names = out.map(({ state, outage }) => `${state.cluster} (${outage})`);
  return `${out.length} clusters without fresh data: ${names.join(", ")}`;
}

function problems(troubled) {
  const all = troubled.flatMap(({ state, others }) => others.map((text) => `${state.cluster}: ${text}`));
  return all.length === 1 ? all[0] : `${all.length} problems: ${all[0]}`;
}

/** Problems that the reason does not name already: several parts fail for the same cause. */
const others = ({ ready, reason, problems }) => problems.filter((text) => ready || !reason.includes(core(text)));

/** `topics: listing topics: nothing listens at … (connection refused)` → `nothing listens at …`. */
const core = (text) => text.replace(/ \(.*$/s, "").split(": ").at(-1);
