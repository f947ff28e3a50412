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

  start() {
    this.#connect();
    setInterval(() => {
      if (this.#source && performance.now() - this.#heardAt > SILENT_MS) this.#again();
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

  /** The time on the clock of the server (ms): that of who looks may differ. */
  now(cluster) {
    const told = this.clusters.get(cluster);
    return told?.state.at_ms ? told.state.at_ms + performance.now() - told.receivedAt : Date.now();
  }

  onChange(listener) {
    this.#listeners.add(listener);
  }

  /** Seconds since log ends were last read, of the cluster that is worst; null before the first. */
  age() {
    let oldest = null;
    for (const { state, receivedAt } of this.clusters.values()) {
      if (state.age_s === null) continue;
      oldest = Math.max(oldest ?? 0, state.age_s + (performance.now() - receivedAt) / 1000);
    }
    return oldest;
  }

  #connect() {
    this.#heardAt = performance.now();
    const source = (this.#source = new EventSource("api/v1/stream"));
    source.addEventListener("fleet", (event) => {
      const told = JSON.parse(event.data);
      this.columns = told.columns;
      this.#take(told, new Map(told.rows.map((row) => [row[0], row])), null);
      this.#failures = 0;
    });
    source.addEventListener("round", (event) => {
      const told = JSON.parse(event.data);
      const rows = this.clusters.get(told.cluster)?.rows ?? new Map();
      for (const row of told.rows) rows.set(row[0], row);
      for (const group of told.gone) rows.delete(group);
      this.#take(told, rows, told);
    });
    source.addEventListener("beat", () => {
      this.#heardAt = performance.now();
    });
    source.onerror = () => this.#again();
  }

  #take(told, rows, changes) {
    const { rows: _rows, columns: _columns, gone: _gone, ...state } = told;
    this.connected = true;
    this.#heardAt = performance.now();
    const turned = this.isStale(told.cluster) !== told.stale;
    this.clusters.set(told.cluster, { state, rows, receivedAt: performance.now() });
    this.#tell(turned || changes === null || changes.rows.length > 0 || changes.gone.length > 0);
  }

  #again(delay = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)]) {
    this.#source?.close();
    this.#source = null;
    this.connected = false;
    this.#tell(false);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#connect(), delay);
  }

  #stop() {
    clearTimeout(this.timer);
    this.#source?.close();
    this.#source = null;
  }

  #tell(rowsChanged) {
    for (const listener of this.#listeners) listener(rowsChanged);
  }
}
