// Open incidents and mutes, asked for now and then, and what of them concerns a group.

import { ask } from "./ask.js";

const EVERY_MS = 15_000;
const AGAIN_MS = 600_000; // without alerts: they may be switched on while the page is open
const MOST = 1000; // of one answer
const PAGES = 50;

export class Alerts {
  mutes = [];
  known = false; // false also where the server has no alerts
  #absentUntil = 0; // ms; the server has no alerts
  #open = new Map();
  #ofClusters = new Map();
  #listeners = new Set();

  start() {
    this.refresh();
    setInterval(() => document.hidden || this.refresh(), EVERY_MS);
  }

  onChange(listener) {
    this.#listeners.add(listener);
  }

  /** Has the server no alerts? Only known once it was asked. */
  get absent() {
    return performance.now() < this.#absentUntil;
  }

  /** Ask anew; what was known stays where the question fails. */
  async refresh() {
    if (this.absent) return;
    try {
      const muted = await ask("api/v1/alerts/mutes"); // first, so that a server without alerts refuses one question only
      const incidents = await openIncidents();
      this.#open = new Map(incidents.filter((incident) => incident.about === "group").map((incident) => [key(incident.cluster, incident.group), incident]));
      this.#ofClusters = new Map(incidents.filter((incident) => incident.about === "cluster").map((incident) => [incident.cluster, incident]));
      this.mutes = muted.mutes.map((mute) => ({ ...mute, matches: matcher(mute) }));
      this.known = true;
    } catch (error) {
      if (error.status === 404) this.#absentUntil = performance.now() + AGAIN_MS;
      return;
    }
    for (const listener of this.#listeners) listener();
  }

  /** The open incident of a group; undefined when there is none. */
  incident(cluster, group) {
    return this.#open.size ? this.#open.get(key(cluster, group)) : undefined;
  }

  /** The open incidents of the groups of a cluster. */
  incidentsOn(cluster) {
    return [...this.#open.values()].filter((incident) => incident.cluster === cluster);
  }

  /** The open incident of a cluster itself; undefined when there is none. */
  incidentOf(cluster) {
    return this.#ofClusters.get(cluster);
  }

  /** The mute under which a group is now; undefined when there is none. */
  muted(cluster, group) {
    return this.mutes.find((mute) => mute.active && mute.matches(cluster, group));
  }
}

/** All of them, page by page: in a storm the oldest are those that somebody works on. */
async function openIncidents() {
  const found = [];
  for (let cursor = "", page = 0; page < PAGES; page++) {
    const answer = await ask(`api/v1/alerts/incidents?${new URLSearchParams({ state: "open", limit: MOST, cursor })}`);
    found.push(...answer.incidents);
    cursor = answer.next;
    if (!cursor) break;
  }
  return found;
}

/** Trouble that becomes worse goes on: its incident has begun before the verdict of now. */
export function inTroubleSince(judged, judgedAtLeast, incident) {
  const began = incident?.again_ms ?? incident?.since_ms ?? Infinity;
  const since = judged === null ? null : Math.min(judged, began);
  const atLeast = (since === judged && judgedAtLeast) || (since === began && incident.again_ms === null && incident.since_at_least);
  return { since, atLeast: since !== null && atLeast };
}

const key = (cluster, group) => JSON.stringify([cluster, group]);

/**
 * Does a mute concern a group? In ours `*` is any characters; those of the configuration are regular
 * expressions, of which one match anywhere in the name is enough.
 */
function matcher({ id, cluster, group }) {
  const pattern = id.startsWith("config:") ? expression : glob;
  const [ofCluster, ofGroup] = [pattern(cluster), pattern(group)];
  return (itsCluster, itsGroup) => ofCluster.test(itsCluster) && ofGroup.test(itsGroup);
}

const glob = (text) => new RegExp(`^${(text || "*").replace(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*")}$`, "s");

const FLAGS = /^\(\?([aimsu]+)\)/;
const ONLY_PYTHON = { "\\A": "^", "\\Z": "$", "(?P<": "(?<" };

/** A regular expression that is written for Python. */
function expression(text) {
  const flags = (FLAGS.exec(text)?.[1] ?? "").replace(/[au]/g, "");
  const pattern = text.replace(FLAGS, "").replace(/\\.|\(\?P<|\(\?P=(\w+)\)/gs, (part, name) => (name ? `\\k<${name}>` : (ONLY_PYTHON[part] ?? part)));
  try {
    return new RegExp(pattern, [...new Set(flags)].join(""));
  } catch {
    return /(?!)/; // not understood here
  }
}
