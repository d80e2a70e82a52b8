// Any answer as a chart: one column along, others up.

import { choice, fill, h } from "./dom.js";
import { chart } from "./plot.js";
import { compare } from "./table.js";

/** After the first column, which has the colour of its layer. */
const OTHERS = ["other-1", "other-2", "other-3", "other-4"];
const MOST = 5000;

/** What is chosen stays while answers have the same columns. */
const remembered = new Map();

/** A chart of a layer's answer, with choices of what it shows. Returns {element, stop}. */
export function chartOf(columns, rows, layer) {
  const numeric = columns.filter((column) => column.kind === "number");
  if (!rows || !numeric.length) {
    return { element: h("p", { class: "note" }, rows ? "A chart needs a column of numbers, and this answer has none." : "There is nothing to draw."), stop() {} };
  }
  const named = columns.map(({ name, type }) => `${name} ${type}`).join();
  const chosen = remembered.get(named) ?? defaults(columns, numeric);
  remembered.set(named, chosen);
  const place = h("div", {});
  const tools = h("div", { class: "tools" });
  let drawn = null;
  offer();
  draw();

  function offer() {
    fill(
      tools,
      choice("Along", columns.map(({ name }, n) => [String(n), name]), String(chosen.x), (n) => {
        chosen.x = Number(n);
        chosen.kind = defaultKind(columns[chosen.x]);
        offer();
        draw();
      }),
      choice("As", [["line", "lines"], ["bars", "bars"], ["points", "points"]], chosen.kind, (kind) => {
        chosen.kind = kind;
        draw();
      }),
      columns.map((column, n) => column.kind === "number" && n !== chosen.x && h("label", { class: "check" }, h("input", { type: "checkbox", checked: chosen.y.has(n), onchange: (event) => {
        if (event.target.checked) chosen.y.add(n);
        else chosen.y.delete(n);
        draw();
      } }), column.name)),
    );
  }

  function draw() {
    drawn?.stop();
    const up = [...chosen.y].filter((n) => n !== chosen.x).sort((a, b) => a - b);
    if (!up.length) {
      drawn = null;
      fill(place, h("p", { class: "muted" }, "Choose at least one column of numbers."));
      return;
    }
    const along = columns[chosen.x];
    const order = Array.from({ length: rows }, (_, row) => row).slice(0, MOST);
    const scaled = along.kind === "number" || along.kind === "time";
    if (scaled) order.sort((a, b) => compare(along.value(a), along.value(b)));
    const kept = scaled ? order.filter((row) => along.number(row) !== null) : order;
    const names = scaled && chosen.kind !== "bars" ? null : kept.map((row) => along.text(row) ?? "NULL");
    drawn = chart({
      series: up.map((n, at) => ({ label: columns[n].name, colour: at ? OTHERS[(at - 1) % OTHERS.length] : layer, kind: chosen.kind })),
      data: [names ? kept.map((_, n) => n) : kept.map((row) => along.number(row)), ...up.map((n) => kept.map((row) => columns[n].number(row)))],
      time: along.kind === "time",
      names,
      zero: chosen.kind === "bars",
      height: 320,
      along: along.name,
      up: up.length === 1 ? columns[up[0]].name : null,
      label: `${up.map((n) => columns[n].name).join(", ")} by ${along.name}`,
    });
    fill(place, rows > MOST && h("p", { class: "muted" }, `The first ${MOST} rows are drawn.`), drawn.element);
  }

  return { element: h("div", { class: "stack" }, tools, place), stop: () => drawn?.stop() };
}

function defaults(columns, numeric) {
  const along = columns.find((column) => column.kind === "time") ?? columns.find((column) => column.kind === "text") ?? columns[0];
  const x = columns.indexOf(along);
  const first = numeric.find((column) => column !== along) ?? numeric[0];
  return { x, y: new Set([columns.indexOf(first)]), kind: defaultKind(along) };
}

function defaultKind(along) {
  return along.kind === "time" || along.kind === "number" ? "line" : "bars";
}
