// Every mute that is open or still to come, and the form for a new one.

import { ask, order } from "./ask.js";
import { instant } from "./instants.js";
import { mayOperate } from "./session.js";
import { entitle, make, number, say } from "./words.js";

export const DURATIONS = { 900: "15 minutes", 3600: "1 hour", 14400: "4 hours", 86400: "1 day", 604800: "1 week" };
const $ = (id) => document.getElementById(id);

export class Mutes {
  #alerts;
  #box = $("mutes-page");

  constructor(alerts) {
    this.#alerts = alerts;
    alerts.onChange(() => this.#box.hidden || this.#list());
  }

  show() {
    if (!this.#box.children.length) this.#build();
    this.#list();
    entitle("Mutes – lagwatch");
    this.#box.querySelector("h2").focus({ preventScroll: true });
  }

  #build() {
    const form = make("form", { id: "new-mute", class: "tools", onsubmit: (event) => this.#mute(event) },
      make("label", {}, "Cluster", make("input", { id: "new-cluster", placeholder: "all", autocomplete: "off" })),
      make("label", {}, "Group", make("input", { id: "new-group", placeholder: "billing-*; * is all", autocomplete: "off" })),
      make("label", {}, "For", make("select", { id: "new-for" }, ...durations())),
      make("label", {}, "Reason", make("input", { id: "new-reason", required: true, maxlength: "1000", autocomplete: "off" })),
      make("button", { type: "submit" }, "Mute"));
    this.#box.replaceChildren(
      make("a", { href: "./" }, "← All groups"),
      make("h2", { tabindex: "-1" }, "Mutes"),
      make("section", { class: "card" }, form,
        make("p", { class: "empty", id: "mutes-said", role: "status", tabindex: "-1" }),
        make("ul", { class: "list", id: "all-mutes", "aria-label": "Mutes" })));
  }

  #list() {
    $("new-mute").hidden = !mayOperate() || !this.#alerts.known;
    const lines = this.#alerts.mutes.map((mute) => muteLine(mute, (id) => this.#end(id)));
    const none = this.#alerts.known ? "No mutes: every notice is sent." : "The mutes are not known. Alerts may be switched off.";
    $("all-mutes").replaceChildren(...(lines.length ? lines : [make("li", { class: "empty" }, none)]));
  }

  async #mute(event) {
    event.preventDefault();
    const asked = { cluster: $("new-cluster").value.trim(), group: $("new-group").value.trim(), reason: $("new-reason").value, duration_s: Number($("new-for").value) };
    await this.#change(() => order("api/v1/alerts/mutes", asked), "Muted.");
  }

  #end(id) {
    return this.#change(() => ask(`api/v1/alerts/mutes/${encodeURIComponent(id)}`, { method: "DELETE" }), "The mute has ended.");
  }

  async #change(act, done) {
    try {
      await act();
      say($("mutes-said"), done);
    } catch (error) {
      say($("mutes-said"), `That did not work: ${error.message}`);
    }
    await this.#alerts.refresh();
    if (document.activeElement === document.body) $("mutes-said").focus(); // its button has gone
  }
}

export const durations = () => Object.entries(DURATIONS).map(([value, word]) => make("option", { value }, word));

const named = (name) => (name === "*" ? "" : name);

/** One mute in words, with a button that ends it where that is allowed. */
export function muteLine(mute, end) {
  const whom = `${named(mute.group) || "all groups"} on ${named(mute.cluster) || "all clusters"}`;
  const until = mute.ends_ms === null ? "" : ` until ${instant(mute.ends_ms)}`;
  const from = mute.active ? "Muted" : mute.weekly ? "Muted every week" : `Muted from ${instant(mute.starts_ms)}`;
  const when = mute.weekly ? ` (${mute.weekly})` : "";
  const now = mute.matching ? `${number(mute.matching)} ${mute.matching === 1 ? "group" : "groups"} now` : "no group now: is the name right?";
  const by = mute.author ? `, by ${mute.author}` : "";
  const own = !mute.id.startsWith("config:") && mayOperate();
  const button = own ? make("button", { type: "button", "aria-label": `Unmute ${whom}`, onclick: () => end(mute.id) }, "Unmute") : null;
  return make("li", {}, `${from}${until}${when}: ${whom} (${now})${by}: ${mute.reason} `, button);
}
