// How late the events of the speed layer's share arrived, by tick.

import { loading, loadingText } from "../again.js";
import { question } from "../asking.js";
import { choice, fill, h, layerName } from "../dom.js";
import { errorText } from "../errors.js";
import { count, counted, quoted, span, tenths } from "../format.js";
import { chart } from "../plot.js";
import { catalog } from "../server.js";
import { answerTable } from "../table.js";

/** The bounds of how late a window's events may be, in seconds, the names of their columns, and the legend. */
const BOUNDS = [
  [60, "within_a_minute", "at most 1 min late"],
  [3600, "within_an_hour", "1 min to 1 h late"],
  [86400, "within_a_day", "1 h to 1 day late"],
  [Infinity, "later", "more than 1 day late"],
];
/** All of it is the speed layer's; the later, the stronger. */
const COLOURS = ["late-1", "late-2", "late-3", "late-4"];

export function lateness(page, { parts: [chosen] }) {
  let stop = null;
  let left = false;
  fill(page, loadingText());
  catalog().then(
    ({ views }) => {
      if (left) return;
      if (!views.length) return fill(page, h("p", {}, "The catalog has no views."));
      const windowed = (view) => view.keys.some((key) => key.window);
      const view = views.find(({ name }) => name === chosen) ?? views.find(windowed) ?? views[0];
      const place = h("div", { class: "stack" });
      fill(
        page,
        h("p", { class: "muted" }, "The schema ", layerName("arrivals"), " has the speed layer's share of each view by the tick in which its events arrived. Late events are counted in the windows to which they belong, so answers are right whatever this page shows."),
        h("div", { class: "tools" }, choice("View", views.map(({ name }) => [name, name]), view.name, (name) => {
          location.hash = `#/lateness/${encodeURIComponent(name)}`;
        })),
        place,
      );
      stop = showView(place, view);
    },
    (error) => fill(page, errorText(error)),
  );
  return () => {
    left = true;
    stop?.();
  };
}

function showView(place, view) {
  const drawn = [];
  const clear = () => drawn.splice(0).forEach((each) => each.stop());
  const sql = sqlFor(view);
  const part = loading(
    place,
    (signal) => question({ sql }, signal),
    (answer) => {
      clear();
      const windowed = Boolean(windowOf(view));
      fill(
        place,
        h("p", { class: "muted" }, windowed
          ? "An event is late by the time from the end of its window to the start of the tick in which it arrived. If that is below zero, the window was still open."
          : `The view ${view.name} has no column for the end of a window, so this shows only how much arrived in each tick.`),
        overlapping(view) && h("p", { class: "muted" }, "The windows overlap: an event belongs to several of them, and is counted here in each."),
        answer.rows ? charts(answer, windowed, drawn) : h("p", { class: "note" }, "Nothing has arrived since the cut."),
        answer.rows ? answerTable(answer.columns, answer.rows, { caption: `By tick, ${view.name}`, sort: { column: 0, descending: true }, decorate: spans }) : null,
        h("p", { class: "muted" }, `Found in ${tenths(answer.ms)} ms by:`),
        h("pre", { tabindex: "0" }, sql),
        h("p", {}, h("a", { href: `#/sql?${new URLSearchParams({ q: sql })}` }, "Ask it in SQL")),
      );
    },
  );
  return () => {
    part.stop();
    clear();
  };
}

function windowOf(view) {
  const key = view.keys.find((each) => each.window);
  return key && view.output.includes(`${key.name}_end`) ? `${key.name}_end` : null;
}

function overlapping(view) {
  return view.keys.some(({ window }) => window?.startsWith("sliding"));
}

/** One row for each tick. The number of events is known if the view counts them. */
function sqlFor(view) {
  const end = windowOf(view);
  const counting = view.aggregates.find((each) => each.aggregate === "count" && !each.where);
  const events = counting ? `sum(${quoted(counting.name)})` : "count(*)";
  const late = end && `epoch(_tick) - epoch(${quoted(end)})`;
  const parts = [`_tick`, `count(*) as keys`];
  if (counting) parts.push(`${events} as events`);
  if (late) {
    parts.push(`min(${late}) as least_late_s`, `max(${late}) as most_late_s`);
    BOUNDS.forEach(([bound], n) => {
      const over = n > 0 && `${late} > ${BOUNDS[n - 1][0]}`;
      const under = bound < Infinity && `${late} <= ${bound}`;
      parts.push(`coalesce(${events} filter (where ${[over, under].filter(Boolean).join(" and ")}), 0) as ${quoted(BOUNDS[n][1])}`);
    });
  }
  return `select ${parts.join(",\n  ")}\nfrom arrivals.${quoted(view.name)}\ngroup by _tick\norder by _tick`;
}

function spans(name, text) {
  return name.endsWith("_late_s") ? `${text.startsWith("-") ? "−" : ""}${span(Math.abs(Number(text)))}` : null;
}

function charts({ columns, rows }, windowed, drawn) {
  const order = Array.from({ length: rows }, (_, row) => row);
  const named = (name) => columns.find((column) => column.name === name);
  const ticks = order.map((row) => named("_tick").number(row));
  const counted_ = named("events") ? "events" : "keys";
  const shares = windowed
    ? BOUNDS.map(([, column, name], n) => ({ name, colour: COLOURS[n], column: named(column) }))
    : [{ name: counted_, colour: "speed", column: named(counted_) }];
  // Bars are drawn over each other, the sum of all first, so that they look stacked.
  const stacked = shares.map((_, n) => order.map((row) => shares.slice(0, n + 1).reduce((sum, { column }) => sum + column.number(row), 0)));
  const texts = order.map((row) => named("_tick").text(row));
  const oneDay = texts[0].slice(0, 10) === texts.at(-1).slice(0, 10);
  const names = texts.map((text) => (oneDay ? text.slice(11, 19) : text.slice(5, 16)));
  const one = chart({
    series: shares.map(({ name, colour, column }) => ({ label: name, colour, kind: "bars", value: (row) => count(column.number(row)) })).reverse(),
    data: [order, ...stacked.reverse()],
    names,
    zero: true,
    height: 240,
    along: "tick in which they arrived (UTC)",
    up: counted_,
    reversed: true,
    label: `What arrived in each of ${rows} ticks, by how late it was`,
  });
  drawn.push(one);
  return [h("h2", {}, `${counted_ === "events" ? "Events" : "Keys"} by tick of arrival${windowed ? " and by how late they were" : ""}: ${counted(rows, "tick")} since the cut`), one.element];
}
