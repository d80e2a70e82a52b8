// Errors as text, where they happened.

import { h } from "./dom.js";
import { marked } from "./marked.js";
import { Lost } from "./server.js";
import { sentence } from "./words.js";

/** What went wrong, with the server's hint and the place in the SQL if it named one. */
export function errorText(error, sql = "") {
  const place = error.position && sql ? placeIn(sql, error.position) : "";
  return h(
    "div",
    { class: "note bad", role: "alert", "data-lost": error instanceof Lost },
    h("p", {}, marked(sentence(error.message)), place),
    error.hint && h("p", { class: "hint" }, marked(sentence(error.hint))),
    error instanceof Lost && h("p", { class: "hint" }, marked("Is `trilayer serve` still running? The page tries again by itself.")),
  );
}

function placeIn(sql, position) {
  const before = sql.slice(0, position - 1).split("\n");
  return ` (line ${before.length}, column ${before.at(-1).length + 1})`;
}
