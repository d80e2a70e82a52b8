// A table of an answer, sorted by any column on request.

import { h } from "./dom.js";
import { count } from "./format.js";

/** How many rows are shown at most: more would make the page slow and nobody reads them. */
export const SHOWN = 2000;

/**
 * A table over columns as src/answer.js and src/rows.js make them.
 * `decorate`, if given, may turn the text of a cell into an element. `sort` is {column, descending}, and
 * `onsort` is told when another is chosen.
 */
export function answerTable(columns, rows, { caption = "", decorate = null, sort = null, onsort = null } = {}) {
  const body = h("tbody");
  let order = Array.from({ length: rows }, (_, row) => row);
  let by = sort;
  const heads = columns.map((column, n) => {
    const button = h("button", { type: "button", title: column.type, onclick: () => sortBy(n) }, column.name);
    return h("th", { scope: "col", class: column.kind }, button);
  });
  const note = rows > SHOWN ? h("p", { class: "muted" }, `The first ${count(SHOWN)} of these ${count(rows)} rows are shown.`) : null;

  function sortBy(n) {
    by = { column: n, descending: by?.column === n ? !by.descending : false };
    onsort?.(by);
    arrange();
  }

  function arrange() {
    if (by && columns[by.column]) {
      const { value } = columns[by.column];
      const sign = by.descending ? -1 : 1;
      order = order.slice().sort((a, b) => compare(value(a), value(b), sign));
    }
    heads.forEach((head, n) => {
      const is = by?.column === n ? (by.descending ? "descending" : "ascending") : null;
      if (is) head.setAttribute("aria-sort", is);
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...order.slice(0, SHOWN).map(line));
  }

  function line(row) {
    return h(
      "tr",
      {},
      columns.map((column) => {
        const text = column.text(row);
        if (text === null) return h("td", { class: `${column.kind} null` }, "NULL");
        const whole = column.whole(row);
        return h("td", { class: column.kind, title: whole === text ? null : whole }, decorate?.(column.name, text, row) ?? text);
      }),
    );
  }

  arrange();
  return [
    note,
    scrolling(
      h("table", { class: "answer" }, caption && h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body),
      caption || "Rows of the answer",
    ),
  ];
}

/** Compares two values; NULLs are last in both directions. */
export function compare(a, b, sign = 1) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let n = 0; n < Math.min(a.length, b.length); n += 1) {
      const way = compare(a[n], b[n], sign);
      if (way) return way;
    }
    return sign * (a.length - b.length);
  }
  return a < b ? -sign : a > b ? sign : 0;
}

/** A plain table: heads as [text, kind] pairs, and rows of cells. */
export function plainTable(heads, rows, caption = "") {
  return scrolling(
    h(
      "table",
      {},
      caption && h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map(([text, kind = "text"]) => h("th", { scope: "col", class: kind }, text)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, n) => h("td", { class: heads[n][1] ?? "text" }, cell))))),
    ),
    caption || "Table",
  );
}

/** What may be wider than the page; it can be focused, so that keys scroll it. */
function scrolling(table, label) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
}
