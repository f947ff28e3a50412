// Joins the parts: what came in, what the address asks for, what the keys say.

import { Alerts } from "./alerts.js";
import { Fleet } from "./fleet.js";
import { Group } from "./group.js";
import { Live } from "./live.js";
import { Mutes } from "./mutes.js";
import { go, leave, onChange, read } from "./place.js";
import { CHECK_EVERY_MS, check, enter } from "./session.js";
import { Troubles } from "./troubles.js";
import { duration, say } from "./words.js";

const $ = (id) => document.getElementById(id);
const live = new Live();
const alerts = new Alerts();
const troubles = new Troubles(live, alerts);
const fleet = new Fleet(live, alerts, troubles);
const group = new Group(live, alerts);
const mutes = new Mutes(alerts);
let inGroup = true; // or on another page over the list, or before it is known what to show
let marked = false;
let pending = false; // rows came while a group was shown
let opened = null; // the group that is shown

function route() {
  const wanted = Boolean(read().group);
  const muting = !wanted && read().page === "mutes";
  $("fleet").hidden = wanted || muting;
  $("group").hidden = !wanted;
  $("mutes-page").hidden = !muting;
  if (inGroup && !wanted) group.leave();
  if (wanted) {
    opened = read();
    group.show();
  } else if (muting) mutes.show();
  else {
    if (pending) fleet.take();
    else fleet.show();
    pending = false;
    mark();
    if (opened) fleet.returnTo(opened);
    opened = null;
  }
  inGroup = wanted || muting;
}

/** Note when the first groups are on the screen, for who measures it. */
function mark() {
  if (!marked && live.clusters.size) {
    marked = true;
    requestAnimationFrame(() => performance.mark("groups-shown"));
  }
}

function age() {
  const seconds = live.age();
  const box = $("live");
  const since = seconds === null ? "nothing read yet" : `data ${duration(Math.round(seconds))} old`;
  const all = [...live.clusters.values()];
  const ready = all.filter(({ state }) => state.ready).length;
  const state = !live.connected || !ready || seconds === null ? "stale" : ready < all.length ? "partly" : "live";
  if (!live.connected && !live.clusters.size) {
    box.dataset.state = "connecting";
    say(box, "connecting …");
    return;
  }
  const lost = live.connected ? "" : "connection lost, trying again · ";
  // seconds that tick would be read out all the time: only what changes the meaning is announced
  box.setAttribute("aria-live", state === box.dataset.state ? "off" : "polite");
  box.dataset.state = state;
  const of = state === "partly" ? `${ready} of ${all.length} clusters ` : "";
  say(box, state === "stale" ? `${lost}${since}` : `${of}live · ${since}`);
}

live.onChange((rowsChanged) => {
  if (inGroup) {
    pending ||= rowsChanged;
    if (rowsChanged) fleet.count();
    if (read().group) group.refresh();
  } else if (rowsChanged) {
    fleet.take();
    mark();
  }
  age();
  troubles.show();
});
onChange(route);
setInterval(() => {
  age();
  troubles.show();
}, 1000);

// links that stay on the page
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const to = new URL(link.href);
  if (link.classList.contains("skip") || to.origin !== location.origin || to.pathname !== location.pathname) return;
  event.preventDefault();
  go(Object.fromEntries(to.searchParams), { base: {} });
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input, select, textarea");
  if (event.key === "Escape") {
    if (inGroup && !typing) leave();
    else if (event.target.id === "q" && read().q) go({ q: "" }, { replace: true });
  } else if (event.key === "/" && !typing && !inGroup) {
    event.preventDefault();
    $("q").focus();
  } else if (event.key === "ArrowDown" && event.target.id === "q") {
    event.preventDefault();
    fleet.enter();
  }
});

live.start(); // the groups come while it is asked who looks
await enter();
live.retry(); // the stream, too, is open only for who may read
route();
alerts.onChange(() => {
  const active = alerts.mutes.filter((mute) => mute.active).length;
  $("to-mutes").hidden = !alerts.known;
  say($("to-mutes"), active ? `${active} mute${active === 1 ? "" : "s"}` : "Mutes");
});
alerts.start();
setInterval(() => live.connected || check(), CHECK_EVERY_MS);
