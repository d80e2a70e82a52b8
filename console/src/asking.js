// Questions in SQL, with their answers as columns.

import { readAnswer } from "./answer.js";
import { Lost, request } from "./server.js";

/** How many rows a page asks for at most. */
export const FETCHED = 10_000;

let number = 0;

/**
 * Asks a question: {sql, layer, version, rows}. `signal` aborts it, here and in the server.
 * Returns {columns, rows, provenance, truncated, ms}.
 */
export async function question({ sql, layer = "merged", version = null, rows = FETCHED }, signal) {
  const id = `console-${Date.now().toString(36)}-${(number += 1)}`;
  const cancel = () => request(`/v1/sql/${id}`, { method: "DELETE" }).catch(() => {}); // it may have ended already
  signal?.addEventListener("abort", cancel);
  const began = performance.now();
  try {
    // One row more than is shown tells whether the answer goes on.
    const response = await request("/v1/sql", { body: { sql, layer, version, id, max_rows: rows + 1, format: "arrow" }, signal });
    const provenance = JSON.parse(response.headers.get("X-Trilayer-Provenance") ?? "{}");
    const answer = read(await bytesOf(response));
    const truncated = answer.rows > rows;
    return { columns: answer.columns, rows: Math.min(answer.rows, rows), provenance, truncated, ms: performance.now() - began };
  } finally {
    signal?.removeEventListener("abort", cancel);
  }
}

async function bytesOf(response) {
  try {
    return new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Lost("The answer broke off before its end.");
  }
}

function read(bytes) {
  try {
    return readAnswer(bytes);
  } catch (error) {
    throw new Error(`The answer can't be read as Arrow: ${error.message}`);
  }
}

/** The whole answer as CSV, as a blob. */
export async function csv({ sql, layer = "merged", version = null }, signal) {
  const response = await request("/v1/sql", { body: { sql, layer, version, format: "csv" }, signal });
  return response.blob();
}
