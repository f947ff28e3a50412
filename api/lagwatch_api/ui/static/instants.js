// Instants in the time zone of the server's texts (`alerts.time_zone`), with its name: one zone on the whole page.

const LAST_MS = 253_402_300_799_999; // of the year 9999
let zone; // undefined: that of the browser, until the server has named one
let names = {}; // minutes from UTC → abbreviation, as the server writes it
let clock = clockOf(zone);

function clockOf(timeZone) {
  const two = "2-digit";
  return new Intl.DateTimeFormat("en-GB", { timeZone, hourCycle: "h23", year: "numeric", month: two, day: two, hour: two, minute: two, second: two, timeZoneName: "short" });
}

/** Show instants in this zone from now on; one that the browser does not know changes nothing. */
export function setZone(name, abbreviations = {}) {
  try {
    clock = clockOf(name);
    [zone, names] = [name, abbreviations];
  } catch {
    // its own zone is named, too
  }
}

/** A date whose UTC fields are those of the wall clock, and the name of the zone then. */
function wall(ms) {
  const part = Object.fromEntries(clock.formatToParts(ms).map(({ type, value }) => [type, value]));
  const shown = new Date(Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second));
  return { date: shown, name: names[(shown - Math.floor(ms / 1000) * 1000) / 60_000] ?? part.timeZoneName };
}

/** `2027-01-31T22:00:00` on the wall clock. */
export const wallClock = (ms) => wall(ms).date.toISOString().slice(0, 19);

/** `CET`: the name of the zone at an instant. */
export const zoneName = (ms = Date.now()) => wall(ms).name;

/** `22:00:00 CET`; with the date before it when that is not today. */
export function instant(ms) {
  if (!(ms >= 0 && ms <= LAST_MS)) return `${ms} ms`;
  const { date, name } = wall(ms);
  const [day, time] = date.toISOString().slice(0, 19).split("T");
  return day === wallClock(Date.now()).slice(0, 10) ? `${time} ${name}` : `${day} ${time} ${name}`;
}

/** The instant (ms) at which the wall clock shows this; NaN when it is no time. */
export function msOf(text) {
  const shown = Date.parse(`${text}Z`);
  if (Number.isNaN(shown)) return NaN;
  let ms = shown;
  for (let step = 0; step < 2; step++) ms += shown - wall(ms).date; // the second time for a change of the offset
  return ms;
}

/** What uPlot places its ticks by. */
export const tickDate = (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone);
