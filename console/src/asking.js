// Questions in SQL, with their answers as columns.

import { readAnswer } from "./answer.js";
import { Lost, request } from "./server.js";

/** How many rows a page asks for at most. */
export const FETCHED = 10_000;

/**
 * Asks a question: {sql, layer, version, rows}. `signal` aborts it; the server then ends it, too.
 * Returns {columns, rows, provenance, truncated, ms}.
 */
export async function question({ sql, layer = "merged", version = null, rows = FETCHED }, signal) {
  const began = performance.now();
  // One row more than is shown tells whether the answer goes on.
  const response = await request("/v1/sql", { body: { sql, layer, version, max_rows: rows + 1, format: "arrow" }, signal });
  const provenance = JSON.parse(response.headers.get("X-Trilayer-Provenance") ?? "{}");
  const answer = read(await bytesOf(response));
  const truncated = answer.rows > rows;
  return { columns: answer.columns, rows: Math.min(answer.rows, rows), provenance, truncated, ms: performance.now() - began };
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
