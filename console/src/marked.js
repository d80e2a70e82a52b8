// Text with `code` in it.

import { h } from "./dom.js";

/** The parts of a text, with what stands between backquotes as code. */
export function marked(text) {
  return text.split("`").map((part, n) => (n % 2 ? h("code", {}, part) : part));
}
