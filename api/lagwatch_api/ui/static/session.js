// Who looks at the page: a token is asked for where the server wants one.

import { setZone } from "./instants.js";
import { make, say } from "./words.js";

const PATH = "api/v1/session";
const OPEN = { name: "", scope: "admin", takes_tokens: false }; // the rest of the page says what is wrong
export const CHECK_EVERY_MS = 5000;
const RIGHTS = ["none", "read", "operate", "admin"];
let scope = "none";

/** May who looks change something: mute, acknowledge? */
export const mayOperate = () => RIGHTS.indexOf(scope) >= RIGHTS.indexOf("operate");

const $ = (id) => document.getElementById(id);

/** Returns once the groups may be read and the time zone is known; until then the page asks for a token. */
export async function enter() {
  let session = await current().catch(() => OPEN);
  while (session.scope === "none") session = await logIn(session);
  if (session.time_zone) setZone(session.time_zone, session.time_zone_names);
  scope = session.scope;
  $("who").hidden = !session.takes_tokens || !session.name;
  say($("who-name"), `${session.name} (${session.scope})`);
  $("log-out").onclick = async () => {
    await fetch(PATH, { method: "DELETE" });
    location.reload();
  };
}

/** Load the page anew when the token has been revoked: it then asks for another. Or, while it asks, when it is valid again. */
export async function check(asks = false) {
  const session = await current().catch(() => null); // the server may be away
  if (session && (session.scope === "none") !== asks) location.reload();
}

async function current() {
  const answer = await fetch(PATH);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}

async function logIn(session) {
  if (!session.takes_tokens) {
    $("main").replaceChildren(make("p", { class: "card" }, "Not logged in. Open this page through the proxy that logs you in."));
    return new Promise(() => {});
  }
  const form = $("log-in");
  form.hidden = false;
  $("fleet").hidden = true;
  $("token").focus();
  const again = setInterval(() => check(true), CHECK_EVERY_MS); // on a wall nobody types a token
  await new Promise((done) => form.addEventListener("submit", (event) => done(event.preventDefault()), { once: true }));
  clearInterval(again);
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(PATH, { method: "POST", headers, body: JSON.stringify({ token: $("token").value.trim() }) });
  $("token").value = "";
  if (!answer.ok) {
    say($("log-in-said"), answer.status === 401 ? "This token is not known." : `That did not work: status ${answer.status}`);
    return session;
  }
  form.hidden = true;
  $("fleet").hidden = false;
  $("main").focus(); // the field has gone
  return answer.json();
}
