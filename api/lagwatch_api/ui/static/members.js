// Who is in a group, where, and which partitions each holds.

import { make, number, say } from "./words.js";

const MOST = 200;
const $ = (id) => document.getElementById(id);

export function membersSection() {
  return make("section", { class: "card", "aria-labelledby": "h-members" },
    make("h3", { id: "h-members" }, "Members"),
    make("p", { class: "empty", id: "g-members-said" }),
    make("div", { class: "wide", id: "g-members", tabindex: "0", role: "group", "aria-label": "Members, scrollable" }));
}

/** `members` as the group's answer has them; null when they are not known. `readPerS`: messages; null is unknown. */
export function fillMembers(members, readPerS) {
  const box = $("g-members");
  const all = members ?? [];
  const left = all.length > MOST ? `The first ${MOST} of ${number(all.length)}.` : "";
  say($("g-members-said"), members === null ? "The members are not known." : all.length ? left : without(readPerS));
  box.hidden = !all.length;
  const text = JSON.stringify(members);
  if (box.dataset.shown === text) return;
  box.dataset.shown = text;
  const rows = all.slice(0, MOST).map((member) =>
    make("tr", {},
      make("td", { title: member.member_id }, member.client_id || "–"),
      make("td", {}, member.host || "–"),
      make("td", {}, member.instance_id || "–"),
      make("td", {}, assigned(member.assignment))));
  const head = ["Client", "Host", "Static id", "Partitions"].map((title) => make("th", { scope: "col" }, title));
  box.replaceChildren(make("table", { class: "grid" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
}

function without(readPerS) {
  if (readPerS > 0) return "No members, but its offsets are committed: by a consumer that assigns partitions itself, or by another program.";
  return readPerS === 0 ? "No members: nothing reads for this group." : "No members.";
}

const assigned = (assignment) => assignment.map((part) => `${part.topic}: ${ranges(part.partitions)}`).join("; ") || "none";

/** `0–3, 7`. */
function ranges(partitions) {
  const found = [];
  for (const partition of partitions) {
    const last = found.at(-1);
    if (last && last[1] === partition - 1) last[1] = partition;
    else found.push([partition, partition]);
  }
  return found.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}
