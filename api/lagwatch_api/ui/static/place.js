// What is shown stands in the address, so that it can be shared and gone back to.

const listeners = new Set();

/** What to change in an address so that it shows the list, searched and arranged as before. */
export const LIST = { group: "", of: "", page: "", topic: "", partition: "", range: "", from: "", to: "", curve: "" };

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
  const { group, page } = read();
  const state = replace ? history.state : { fromList: !group && page !== "mutes" };
  history[replace ? "replaceState" : "pushState"](state, "", address(changes, base));
  for (const listener of listeners) listener();
}

/** To the list: back, if the page was opened from there. */
export function leave() {
  if (history.state?.fromList) history.back();
  else go(LIST);
}

export function onChange(listener) {
  listeners.add(listener);
}

addEventListener("popstate", () => {
  for (const listener of listeners) listener();
});
