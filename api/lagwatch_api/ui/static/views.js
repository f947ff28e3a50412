// Groups under headings: by cluster, topic, client, team or the first part of their names.

export const VIEWS = { "": "All groups", cluster: "By cluster", topic: "By topic", client: "By client", team: "By team", prefix: "By prefix" };

const PREFIX = /^[^./:]+(?=[./:])|^[^-_]+/; // team-7.orders → team-7, billing-orders → billing
// members of one service differ in the end: orders-1, orders-2
const NUMBERED = /[-_.](\d+|[0-9a-f]{8}-[0-9a-f-]{27})$/;
const DIGITS = /\d+$/;

const HEADINGS = {
  cluster: (entry) => [entry.cluster],
  topic: (entry) => entry.topics ?? [],
  client: (entry) => services(entry.clients ?? []),
  team: (entry) => entry.teams ?? [],
  prefix: (entry, shared) => [prefix(entry)].filter((name) => shared.has(name)),
};
const NONE = { topic: "(no topic known)", client: "(no members)", team: "(no alert policy names a team)", prefix: "(no prefix shared)" };

/**
 * The services that these clients of one group are members of. `pay2` is a service of its own beside
 * `pay-1`, and a member of `pay` where the group has a `pay1` as well.
 */
function services(clients) {
  const named = clients.map((client) => client.replace(NUMBERED, "") || client);
  const stems = named.map((name) => name.replace(DIGITS, "") || name);
  const members = (stem, nth) => stems.indexOf(stem) !== stems.lastIndexOf(stem) && named[nth] !== stem;
  return [...new Set(stems.map((stem, nth) => (members(stem, nth) ? stem : named[nth])))];
}

const prefix = (entry) => PREFIX.exec(entry.group)?.[0] ?? entry.group;

/** Does the view need what groups read? */
export const needsSubscriptions = (view) => ["topic", "client", "team"].includes(view);

/**
 * Headings and, under those that are open, groups in the order given. A heading is
 * { heading, count, bad, unknown, worst, open }; the worst comes first. `isOpen` says that of a heading; `all`
 * groups say which prefixes are shared: a search must not change the heading of what it finds.
 */
export function arranged(groups, view, isOpen, all) {
  const shared = view === "prefix" ? repeated(all.map(prefix)) : null;
  const found = new Map();
  for (const entry of groups) {
    const names = HEADINGS[view](entry, shared);
    for (const name of names.length ? names : [NONE[view] ?? "(none)"]) {
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(entry);
    }
  }
  const sections = [...found].map(([heading, members]) => ({
    heading, members,
    count: members.length,
    bad: members.filter((entry) => entry.trouble >= 3).length,
    unknown: members.filter((entry) => entry.status === "UNKNOWN").length,
    worst: members.reduce((worst, entry) => (entry.trouble > worst.trouble ? entry : worst)).worst,
    open: isOpen(heading),
  }));
  const rank = (section) => Math.max(...[section.members[0].trouble, section.bad ? 3 : 0]);
  const rest = (section) => (section.heading === NONE[view] ? 1 : 0); // after the named ones that are as bad
  sections.sort((a, b) => rank(b) - rank(a) || rest(a) - rest(b) || b.bad - a.bad || b.count - a.count || (a.heading < b.heading ? -1 : 1));
  return sections.flatMap((section) => (section.open ? [section, ...section.members] : [section]));
}

/** Those that are there twice or more. */
function repeated(names) {
  const once = new Set();
  return new Set(names.filter((name) => once.has(name) || !once.add(name)));
}
