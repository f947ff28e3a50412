// Questions to the server.

const WITHIN_MS = 15_000;

/** The JSON that a path answers; null for an answer without. Throws an error with `status`. */
export async function ask(path, options) {
  const answer = await fetch(path, { ...options, signal: AbortSignal.timeout(WITHIN_MS) });
  const type = answer.headers.get("content-type") ?? "";
  const text = await answer.text();
  const content = text !== "" && type.includes("json") ? JSON.parse(text) : null;
  if (answer.ok) return content;
  throw Object.assign(new Error(content?.message ?? content?.detail ?? `status ${answer.status}`), { status: answer.status });
}

/** Send an order with a JSON body. */
export const order = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

/** A name as a segment of a path. `.` and `..` are steps in a path, also encoded: there `;` follows. */
export const segment = (name) => (name === "." || name === ".." ? `${name};` : encodeURIComponent(name));
