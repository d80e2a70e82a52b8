// Requests to the server that served this page, and its errors.

/** What the server refused, in its words. */
export class Refused extends Error {
  constructor(status, { code = "", message, hint = "", position = 0 }) {
    super(message);
    Object.assign(this, { status, code, hint, position });
  }
}

/** No answer came: the server is away, or the network is. */
export class Lost extends Error {}

/** Sends a request and returns the response, if it is one of success. */
export async function request(path, { body, method = body ? "POST" : "GET", signal, accept } = {}) {
  const headers = {};
  if (body) headers["Content-Type"] = "application/json";
  if (accept) headers.Accept = accept;
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body), cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Lost("The server does not answer.");
  }
  if (response.ok) return response;
  let said;
  try {
    said = (await response.json()).error;
  } catch {
    said = null;
  }
  throw new Refused(response.status, said ?? { message: `The server answered with status ${response.status}.` });
}

/** Sends a request and returns the JSON of the answer. */
export async function ask(path, options) {
  const response = await request(path, options);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Lost("The answer broke off before its end.");
  }
}

/** The path with those parameters that have a value. */
export function path(base, parameters) {
  const present = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return present.length ? `${base}?${new URLSearchParams(present)}` : base;
}

let catalogue = null;

/** The catalog, which is asked for once, or again while views without an answer have no types. */
export function catalog() {
  catalogue ??= ask("/v1/catalog").then(
    (found) => {
      if (found.views.some((view) => !view.columns)) catalogue = null;
      for (const view of found.views) view.columns ??= columnsDefined(view);
      return found;
    },
    (error) => {
      catalogue = null;
      throw error;
    },
  );
  return catalogue;
}

/** The columns as the definition of a view has them, with Spark's names of types. */
function columnsDefined({ output, keys, aggregates }) {
  const types = new Map([...keys, ...aggregates].map(({ name, type }) => [name, type]));
  return output.map((name) => ({ name, type: types.get(name) ?? types.get(name.replace(/_end$/, "")) ?? "" }));
}

let who = null;

/** Who asks, and in which role, which is asked for once. */
export function session() {
  who ??= ask("/v1/session").catch((error) => {
    who = null;
    throw error;
  });
  return who;
}
