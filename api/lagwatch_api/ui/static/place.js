// What is shown stands in the address, so that it can be shared and gone back to.

const listeners = new Set();

export function read() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

export function address(changes, base = read()) {
  const merged = { ...base, ...changes };
  const kept = Object.entries(merged).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept).toString();
  return query ? `?${query}` : location.pathname;
}

/** Go there; `replace` leaves no step to go back to. */
export function go(changes, { replace = false, base = read() } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address(changes, base));
  for (const listener of listeners) listener();
}

export function onChange(listener) {
  listeners.add(listener);
}

addEventListener("popstate", () => {
  for (const listener of listeners) listener();
});
