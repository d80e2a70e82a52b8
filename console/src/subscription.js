// An answer that the server keeps current, over an event stream.

import { columnsOf } from "./rows.js";
import { path, Refused } from "./server.js";

/** How often the page draws at most, in milliseconds. */
const DRAW_MS = 250;

/**
 * Subscribes to a question: {sql, layer}. Calls `answer` with {columns, rows, provenance},
 * `failed` with an error after which nothing comes, `lost` and `heard`. Returns how to end it.
 */
export function subscribe({ sql, layer }, { answer, failed, lost, heard }) {
  const source = new EventSource(path("/v1/subscribe", { sql, layer }));
  let columns = [];
  let key = [];
  let held = new Map();
  let provenance = {};
  let timer = null;
  let opened = false;

  const keyOf = (row) => JSON.stringify(key.map((n) => row[n]));
  const on = (name, act) => source.addEventListener(name, (event) => {
    act(JSON.parse(event.data));
    heard();
  });
  on("snapshot", (said) => {
    columns = said.columns;
    const names = columns.map(({ name }) => name);
    key = said.key.map((name) => names.indexOf(name));
    held = new Map(said.rows.map((row) => [keyOf(row), row]));
    provenance = said.provenance;
    draw();
  });
  on("change", (said) => {
    for (const values of said.deletes) held.delete(JSON.stringify(values));
    for (const row of said.upserts) held.set(keyOf(row), row);
    provenance = said.provenance;
    draw();
  });
  on("progress", (said) => {
    provenance = said.provenance;
  });
  source.addEventListener("failed", (event) => {
    source.close();
    failed(new Refused(200, JSON.parse(event.data).error));
  });
  source.onopen = () => {
    opened = true;
  };
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return lost();
    explain();
  };

  /** EventSource can't read a refusal, so the question is sent once more to hear the reason. */
  async function explain() {
    const response = await fetch(path("/v1/subscribe", { sql, layer })).catch(() => null);
    const said = response && !response.ok ? await response.json().catch(() => null) : null;
    response?.body?.cancel().catch(() => {});
    failed(new Refused(response?.status ?? 0, said?.error ?? { message: opened ? "The server has ended the answer." : "The server refused to keep this answer current." }));
  }

  function draw() {
    timer ??= setTimeout(() => {
      timer = null;
      const rows = [...held.values()];
      answer({ columns: columnsOf({ columns, rows }), rows: rows.length, provenance, truncated: false });
    }, DRAW_MS);
  }

  return () => {
    clearTimeout(timer);
    source.close();
  };
}
