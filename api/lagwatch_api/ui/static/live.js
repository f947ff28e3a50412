// The fleet as it is now: server-sent events, which bring only changes, and how old it is.

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
const SILENT_MS = 25_000; // something comes every 10 s; after this the connection is dead

export class Live {
  /** cluster → { state, receivedAt, rows: Map(group → cells) } */
  clusters = new Map();
  columns = [];
  connected = false;
  #listeners = new Set();
  #failures = 0;
  #source = null;
  #heardAt = 0;
  #version = null; // of the server that this page came from
  #outdated = false;

  start() {
    this.#connect();
    setInterval(() => {
      if (this.#source && performance.now() - this.#heardAt > SILENT_MS) this.#again();
      this.#renew();
    }, 5000);
    addEventListener("online", () => this.connected || this.#again(0));
    // a page that is left must not hold one of the few connections a browser has for a server
    addEventListener("pagehide", () => this.#stop());
    addEventListener("pageshow", (event) => event.persisted && this.#connect());
  }

  /** Connect at once, if it is not. */
  retry() {
    if (!this.connected && this.#failures) this.#again(0);
  }

  /** Are the data of a cluster too old to be trusted? */
  isStale(cluster) {
    return this.clusters.get(cluster)?.state.stale === true;
  }

  /** Has the server read a cluster since it started? Until then a group that it does not know may exist. */
  isRead(cluster) {
    const state = this.clusters.get(cluster)?.state;
    return state !== undefined && state.round !== null && state.began_ms === null;
  }

  /** The time on the clock of the server (ms): that of who looks may differ. */
  now(cluster) {
    const answer = this.clusters.get(cluster);
    return answer?.state.at_ms ? answer.state.at_ms + performance.now() - answer.receivedAt : Date.now();
  }

  onChange(listener) {
    this.#listeners.add(listener);
  }

  /**
   * Seconds since log ends were last read, of the cluster that is worst; null before the first.
   * While some clusters are ready, of these: the line of troubles says the age of the others.
   */
  age() {
    let oldest = null;
    const all = [...this.clusters.values()];
    const ready = all.filter(({ state }) => state.ready);
    for (const { state, receivedAt } of ready.length ? ready : all) {
      if (state.age_s === null) continue;
      oldest = Math.max(oldest ?? 0, state.age_s + (performance.now() - receivedAt) / 1000);
    }
    return oldest;
  }

  #connect() {
    this.#heardAt = performance.now();
    const source = (this.#source = new EventSource("api/v1/stream"));
    const named = new Set();
    source.addEventListener("page", (event) => {
      const { version } = JSON.parse(event.data);
      this.#outdated = version !== (this.#version ??= version);
      this.#renew();
    });
    source.addEventListener("fleet", (event) => {
      const answer = JSON.parse(event.data);
      this.columns = answer.columns;
      named.add(answer.cluster);
      this.#take(answer, new Map(answer.rows.map((row) => [row[0], row])), null);
      this.#failures = 0;
    });
    source.addEventListener("round", (event) => {
      this.#keep(named);
      const answer = JSON.parse(event.data);
      const rows = this.clusters.get(answer.cluster)?.rows ?? new Map();
      for (const row of answer.rows) rows.set(row[0], row);
      for (const group of answer.gone) rows.delete(group);
      this.#take(answer, rows, answer);
    });
    source.addEventListener("beat", () => {
      this.#heardAt = performance.now();
      this.#keep(named);
    });
    source.onerror = () => this.#again();
  }

  /** Load the page that belongs to the server, once nobody writes in this one: what is shown is in its address. */
  #renew() {
    if (this.#outdated && !document.activeElement?.matches("input, select, textarea")) location.reload();
  }

  #take(answer, rows, changes) {
    const { rows: _rows, columns: _columns, gone: _gone, ...state } = answer;
    this.connected = true;
    this.#heardAt = performance.now();
    const turned = this.isStale(answer.cluster) !== answer.stale;
    this.clusters.set(answer.cluster, { state, rows, receivedAt: performance.now() });
    this.#announce(turned || changes === null || changes.rows.length > 0 || changes.gone.length > 0);
  }

  /** Drop all other clusters: a connection names every cluster that there is before it says anything else. */
  #keep(named) {
    const removed = [...this.clusters.keys()].filter((cluster) => !named.has(cluster));
    for (const cluster of removed) this.clusters.delete(cluster);
    if (removed.length) this.#announce(true);
  }

  #again(delay = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)]) {
    this.#source?.close();
    this.#source = null;
    const lost = this.connected;
    this.connected = false;
    this.#announce(lost); // all rows are old now
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#connect(), delay);
  }

  #stop() {
    clearTimeout(this.timer);
    this.#source?.close();
    this.#source = null;
  }

  #announce(rowsChanged) {
    for (const listener of this.#listeners) listener(rowsChanged);
  }
}
