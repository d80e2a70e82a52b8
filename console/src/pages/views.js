// The catalog's views and queries: what they are, and a look at their rows in each layer.

import { answersKey, loading, loadingText } from "../again.js";
import { question } from "../asking.js";
import { fill, h, layerName, terms } from "../dom.js";
import { errorText } from "../errors.js";
import { count, counted, quoted, tenths } from "../format.js";
import { catalog } from "../server.js";
import { answerTable, plainTable } from "../table.js";
import { provenanceText } from "../words.js";

const LAYERS = ["merged", "batch", "speed", "arrivals"];
const LOOK = 200;

export function views(page, { parts: [chosen, layer = "merged"] }) {
  let stop = null;
  let left = false;
  fill(page, loadingText());
  catalog().then(
    (found) => {
      if (left) return;
      const names = [...found.views, ...found.queries].map(({ name }) => name);
      const name = names.includes(chosen) ? chosen : names[0];
      if (!name) return fill(page, h("p", {}, "The catalog has no views."));
      const list = h(
        "ul",
        { class: "list", "aria-label": "Views and queries" },
        names.map((each) => h("li", {}, h("a", { href: address(each, layer), "aria-current": each === name ? "true" : null }, each))),
      );
      const view = found.views.find((each) => each.name === name);
      const part = h("div", { class: "stack" });
      fill(page, h("div", { class: "split" }, list, part));
      stop = view ? showView(part, view, layer) : showQuery(part, found.queries.find((each) => each.name === name), layer);
    },
    (error) => fill(page, errorText(error)),
  );
  return () => {
    left = true;
    stop?.();
  };
}

function address(name, layer) {
  return `#/views/${encodeURIComponent(name)}${layer === "merged" ? "" : `/${layer}`}`;
}

function showView(part, view, layer) {
  const rows = h("div", { class: "stack" });
  fill(
    part,
    h("h2", {}, view.name),
    terms([
      ["stream", view.stream],
      ["source", view.source],
      ["key", view.keys.map(({ name }) => name).join(", ")],
      ...(view.filter ? [["only events where", h("code", {}, view.filter)]] : []),
    ]),
    plainTable([["column"], ["type"], ["what it is"], ["bound"]], schemaOf(view), `Columns of ${view.name}`),
    layerTabs(view.name, layer, LAYERS),
    rows,
  );
  return look(rows, view.name, layer);
}

function schemaOf(view) {
  return view.columns.map(({ name, type }) => {
    const key = view.keys.find((each) => each.name === name);
    const aggregate = view.aggregates.find((each) => each.name === name);
    const what = key ? keyText(key) : aggregate ? aggregateText(aggregate) : view.keys.some((each) => `${each.name}_end` === name) ? "key: the end of the window" : "";
    const bound = view.approximate[name] ?? aggregate?.approximate;
    return [name, type, what, bound ? h("span", {}, "approximate, ", bound) : "exact"];
  });
}

function keyText({ name, expression, window }) {
  if (window) return h("span", {}, "key: the start of the window (", window, ") of ", h("code", {}, expression));
  return expression === name ? "key" : h("span", {}, "key: ", h("code", {}, expression));
}

function aggregateText({ aggregate, where }) {
  return where ? h("span", {}, aggregate, " where ", h("code", {}, where)) : aggregate;
}

function showQuery(part, query, layer) {
  const rows = h("div", { class: "stack" });
  fill(
    part,
    h("h2", {}, query.name),
    h("p", { class: "muted" }, "A query of the catalog over its views:"),
    h("pre", { tabindex: "0" }, query.sql),
    layerTabs(query.name, layer, LAYERS.slice(0, 3)),
    rows,
  );
  return look(rows, query.name, layer);
}

function layerTabs(name, chosen, layers) {
  const sql = `select * from ${chosen === "merged" ? "" : `${chosen}.`}${quoted(name)} limit 100`;
  return h(
    "div",
    { class: "tools" },
    h("div", { class: "tabs", role: "group", "aria-label": "Layer" }, layers.map((layer) => {
      const go = () => {
        location.hash = address(name, layer);
      };
      return h("button", { type: "button", "aria-pressed": String(layer === chosen), onclick: go }, layerName(layer));
    })),
    h("a", { href: `#/sql?${new URLSearchParams({ q: sql })}` }, "Ask it in SQL"),
  );
}

/** The first rows and how many there are, again when the answers change. */
function look(place, name, layer) {
  const from = `${layer}.${quoted(name)}`;
  const asked = layer === "arrivals" ? "merged" : layer;
  const { stop } = loading(
    place,
    async (signal) => {
      const counting = await question({ sql: `select count(*) as n from ${from}`, layer: asked }, signal);
      const answer = await question({ sql: `select * from ${from} limit ${LOOK}`, layer: asked }, signal);
      return { answer, all: Number(counting.columns[0].value(0)) };
    },
    ({ answer, all }) => {
      const part = all > answer.rows ? `${count(answer.rows)} of ${counted(all, "row")}, in no order` : `${counted(all, "row")}`;
      fill(
        place,
        h("p", { class: "muted" }, `${part}, in ${tenths(answer.ms)} ms.`),
        answer.rows ? answerTable(answer.columns, answer.rows, { caption: `Rows of ${from}` }) : h("p", {}, emptyText(layer)),
        provenanceText(answer.provenance, layer === "arrivals" ? "speed" : layer),
      );
    },
    answersKey,
  );
  return stop;
}

function emptyText(layer) {
  return { speed: "The speed layer has nothing above the cut.", arrivals: "Nothing has arrived since the cut." }[layer] ?? "It has no rows.";
}
