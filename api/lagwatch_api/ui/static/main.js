// Joins the parts: what came in, what the address asks for, what the keys say.

import { Fleet } from "./fleet.js";
import { Group } from "./group.js";
import { Live } from "./live.js";
import { go, onChange, read } from "./place.js";
import { duration, make, say } from "./words.js";

const STALE_S = 60;
const $ = (id) => document.getElementById(id);
const live = new Live();
const fleet = new Fleet(live);
const group = new Group(live);
let inGroup = false;
let marked = false;
let pending = false; // rows came while a group was shown

function route() {
  const wanted = Boolean(read().group);
  $("fleet").hidden = wanted;
  $("group").hidden = !wanted;
  if (wanted) group.show();
  else {
    if (inGroup) group.leave();
    if (pending) fleet.take();
    else fleet.show();
    pending = false;
    document.title = "lagwatch";
  }
  inGroup = wanted;
}

function age() {
  const seconds = live.age();
  const box = $("live");
  const since = seconds === null ? "nothing read yet" : `data ${duration(Math.round(seconds))} old`;
  const state = !live.connected ? "stale" : seconds === null || seconds > STALE_S ? "stale" : "live";
  if (!live.connected && !live.clusters.size) {
    box.dataset.state = "connecting";
    say(box, "connecting …");
    return;
  }
  const lost = live.connected ? "" : "connection lost, trying again · ";
  // seconds that tick would be read out all the time: only what changes the meaning is announced
  box.setAttribute("aria-live", state === box.dataset.state ? "off" : "polite");
  box.dataset.state = state;
  say(box, state === "live" ? `live · ${since}` : `${lost}${since}`);
}

function problems() {
  const texts = [...live.clusters.values()].flatMap(({ state }) => [
    ...(state.ready || state.problems.length ? [] : [`${state.cluster}: still being read`]),
    ...state.problems.map((problem) => `${state.cluster}: ${problem}`),
  ]);
  const box = $("problems");
  if (box.dataset.shown === texts.join("\n")) return;
  box.dataset.shown = texts.join("\n");
  box.replaceChildren(...texts.map((text) => make("li", {}, text)));
  box.hidden = texts.length === 0;
}

live.onChange((rowsChanged) => {
  if (inGroup) {
    pending ||= rowsChanged;
    group.refresh();
  } else if (rowsChanged) fleet.take();
  if (!marked) requestAnimationFrame(() => performance.mark("groups-shown"));
  marked = true;
  age();
  problems();
});
onChange(route);
setInterval(age, 1000);

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
    if (inGroup && !typing) history.length > 1 ? history.back() : go({ group: "", of: "" });
    else if (event.target.id === "q" && read().q) go({ q: "" }, { replace: true });
  } else if (event.key === "/" && !typing && !inGroup) {
    event.preventDefault();
    $("q").focus();
  } else if (event.key === "ArrowDown" && event.target.id === "q") {
    event.preventDefault();
    fleet.enter();
  }
});

route();
live.start();
