// Incidents and mutes of one group: mute, acknowledge, and the runbook of its policy.

import { ask, order } from "./ask.js";
import { instant } from "./instants.js";
import { durations, muteLine } from "./mutes.js";
import { read } from "./place.js";
import { mayOperate } from "./session.js";
import { make, say } from "./words.js";

const LISTED = 20;
const $ = (id) => document.getElementById(id);

export class Incidents {
  #alerts;

  constructor(alerts) {
    this.#alerts = alerts;
  }

  section() {
    const form = make("form", { class: "tools", onsubmit: (event) => this.#mute(event) },
      make("label", {}, "Mute for", make("select", { id: "mute-for" }, ...durations())),
      make("label", {}, "Reason", make("input", { id: "mute-reason", required: true, maxlength: "1000", autocomplete: "off" })),
      make("button", { type: "submit", id: "mute" }, "Mute this group"));
    form.hidden = true;
    return make("section", { class: "card", id: "incidents", "aria-labelledby": "h-incidents", hidden: true },
      make("h3", { id: "h-incidents" }, "Incidents"),
      form,
      make("p", { class: "soft", id: "may-not", hidden: true }, "To acknowledge or mute, log in with a token of the scope “operate”."),
      make("p", { class: "empty", id: "mute-said", role: "status", tabindex: "-1" }),
      make("ul", { class: "list", id: "mutes", "aria-label": "Mutes" }),
      make("ul", { class: "list", id: "incident-list", "aria-label": "Incidents" }));
  }

  /** Offer to mute the group, if it is known and the caller may. */
  offer(known) {
    $("incidents").querySelector("form").hidden = !known || !mayOperate();
    $("may-not").hidden = mayOperate();
  }

  /** Ask anew; `current` says whether the answer is still wanted. */
  async load(current) {
    const { group, of } = read();
    try {
      await this.#alerts.refresh();
      if (this.#alerts.absent || !current()) return;
      const answer = await ask(`api/v1/alerts/incidents?${new URLSearchParams({ cluster: of ?? "", group, limit: LISTED })}`);
      if (!current()) return;
      $("incidents").hidden = false;
      const mine = this.#alerts.mutes.filter((mute) => mute.matches(of, group));
      const shown = JSON.stringify(mine);
      if ($("mutes").dataset.shown !== shown) { // a button in it may have the focus
        $("mutes").dataset.shown = shown;
        $("mutes").replaceChildren(...mine.map((mute) => muteLine(mute, (id) => this.#unmute(id))));
      }
      this.#list(answer.incidents);
      await this.#runbook(of, group, current);
    } catch (error) {
      if (error.status !== 404 && current()) say($("mute-said"), `Incidents cannot be read: ${error.message}`);
    }
  }

  #list(incidents) {
    const list = $("incident-list");
    const shown = JSON.stringify(incidents);
    if (list.dataset.shown === shown) return; // a button in it may have the focus
    list.dataset.shown = shown;
    const lines = incidents.map((incident) => incidentLine(incident, (id) => this.#acknowledge(id)));
    list.replaceChildren(...(lines.length ? lines : [make("li", { class: "empty" }, "No incident so far.")]));
  }

  async #runbook(cluster, group, current) {
    const found = await ask(`api/v1/alerts/policy?${new URLSearchParams({ cluster: cluster ?? "", group })}`);
    const names = new Set(Object.values(found.topics));
    const { policies } = await ask("api/v1/alerts/policies");
    const runbooks = policies.filter((policy) => names.has(policy.name)).map((policy) => policy.settings.runbook).filter(Boolean);
    if (!current()) return;
    const links = runbooks.map((runbook) => (/^https?:\/\//.test(runbook) ? make("a", { href: runbook, rel: "noreferrer" }, "Runbook") : make("span", {}, `Runbook: ${runbook}`)));
    $("g-runbook").replaceChildren(...links);
  }

  #acknowledge(id) {
    return this.#change(() => acknowledge(id), ACKNOWLEDGED);
  }

  #unmute(id) {
    return this.#change(() => ask(`api/v1/alerts/mutes/${encodeURIComponent(id)}`, { method: "DELETE" }), "The mute has ended.");
  }

  async #mute(event) {
    event.preventDefault();
    const { group, of } = read();
    const asked = { cluster: of, group, reason: $("mute-reason").value, duration_s: Number($("mute-for").value) };
    await this.#change(() => order("api/v1/alerts/mutes", asked), "Muted.");
    $("mute-reason").value = "";
  }

  async #change(act, done) {
    const { group, of } = read();
    try {
      await act();
      say($("mute-said"), done);
    } catch (error) {
      say($("mute-said"), `That did not work: ${error.message}`);
    }
    const current = () => read().group === group && read().of === of;
    await this.load(current);
    if (current() && document.activeElement === document.body) $("mute-said").focus(); // its button has gone
  }
}

export const ACKNOWLEDGED = "Acknowledged: no more reminders are sent.";
export const acknowledge = (id) => order(`api/v1/alerts/incidents/${encodeURIComponent(id)}/acknowledge`, {});

/** One incident in words, with a button that acknowledges it where that is allowed. */
export function incidentLine(incident, acknowledged) {
  const open = incident.healed_ms === null ? "still open" : `healed ${instant(incident.healed_ms)}, its end waits for the mute`;
  const end = incident.closed_ms === null ? open : `ended ${instant(incident.healed_ms ?? incident.closed_ms)}`;
  const by = incident.acknowledged_by ? ` by ${incident.acknowledged_by}` : "";
  const seen = incident.acknowledged_ms === null ? "" : ` · acknowledged${by} ${instant(incident.acknowledged_ms)}`;
  const may = incident.closed_ms === null && incident.acknowledged_ms === null && mayOperate();
  const button = may ? make("button", { type: "button", onclick: () => acknowledged(incident.id) }, "Acknowledge") : null;
  const said = [incident.headline, incident.cause].filter(Boolean).map((line) => make("p", { class: "said" }, line));
  return make("li", {}, `${incident.since_at_least ? "at least since " : ""}${instant(incident.since_ms)} · ${incident.severity} · ${end} · policy ${incident.policy}${seen} `, button, ...said);
}
