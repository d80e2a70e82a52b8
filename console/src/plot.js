// Charts by uPlot, in the colours of the style sheet and as wide as their place.

import uPlot from "uplot";
import { h } from "./dom.js";
import { count, tenths } from "./format.js";

/** The steps of an axis of time, in seconds: none is shorter than a second. */
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;
const TIMES = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 5, 10, 30, 60, 100, 200, 365, 730, 1825, 3650].map((n) => n * DAY),
];

const live = new Set();

/** The value of a colour of the style sheet, which may differ between light and dark. */
function colour(name) {
  const probe = h("span", { style: { color: `var(--${name})` } });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** The same colour, mostly transparent, to fill an area. */
function faint(name) {
  const solid = colour(name);
  return solid.startsWith("rgb(") ? solid.replace("rgb(", "rgba(").replace(")", ", 0.16)") : "transparent";
}

/**
 * A chart.
 * series: {label, colour, kind: "line" | "steps" | "points" | "bars", fill, value}, where `value` is the
 * text of a row in the legend, if it is not the height; bands: [[upper, lower, colour]].
 * `along` is what x is, and `time` says whether x is seconds since 1970; `names` are the texts of x if it is a number of a row.
 * `up` is what y is. `least_s` is the span of time that is shown at least, and `reversed` has the
 * legend name the last series first.
 */
export function chart({ series, data, bands = [], time = true, names = null, height = 170, label, along = null, up = null, zero = false, least_s = 0, reversed = false }) {
  const place = h("div", { class: "chart", role: "img", "aria-label": label });
  let plot = null;
  let shown = data;

  function make() {
    plot?.destroy();
    plot = new uPlot(options(), shown, place);
    if (!reversed) return;
    const [, ...rows] = place.querySelectorAll(".u-legend .u-series");
    for (const row of rows.reverse()) row.parentNode.append(row);
  }

  function options() {
    const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const named = (text) => text && { label: text, labelSize: 18, labelFont: "11px system-ui, sans-serif" };
    const x = { ...axis, ...named(along && (time && !names ? `${along} (UTC)` : along)), space: 70, size: 28 };
    if (time && !names) {
      x.incrs = TIMES;
      x.values = (_, splits, axisNumber, space, step) => splits.map((at) => stamp(at, step));
    }
    if (names) {
      x.values = (_, splits) => splits.map((at) => (Number.isInteger(at) ? short(names[at] ?? "") : ""));
      x.incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
    }
    return {
      width: Math.max(place.clientWidth, 200),
      height,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      cursor: { y: false, drag: { x: true, y: false } },
      legend: { live: true },
      scales: {
        x: { time: time && !names, range: names ? () => [-0.6, names.length - 0.4] : time ? spanned : undefined },
        y: { range: zero ? (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] : fitted },
      },
      axes: [x, { ...axis, ...named(up), size: 64, values: (_, splits, axisNumber, space, step) => splits.map((at) => level(at, step)) }],
      series: [
        { label: time && !names ? `${along ?? "at"} (UTC)` : along, value: (plotted, at) => (names ? (names[at ?? names.length - 1] ?? "–") : newest(at ?? plotted.data[0].at(-1))) },
        ...series.map(oneSeries),
      ],
      bands: bands.map(([upper, lower, name]) => ({ series: [upper, lower], fill: faint(name) })),
    };
  }

  function oneSeries({ label: name, colour: shade, kind = "line", fill = false, value }) {
    const stroke = colour(shade);
    return {
      label: name,
      stroke,
      width: kind === "points" || kind === "bars" ? 0 : 1.75,
      fill: kind === "bars" ? stroke : fill ? faint(shade) : undefined,
      paths: { bars: uPlot.paths.bars({ size: [0.7, 40] }), steps: uPlot.paths.stepped({ align: 1 }) }[kind],
      points: { show: kind === "points" || (kind === "steps" && shown[0].length < 30), size: 6, fill: stroke },
      // Where the pointer is, else the newest.
      value: (plotted, at, n, row) => {
        const newest = plotted.data[n].length - 1;
        if (value) return newest < 0 ? "–" : value(row ?? newest);
        return number(row === null ? plotted.data[n][newest] : at);
      },
    };
  }

  /** The times of the data, from `least_s` before the newest: a single one has no span of its own. */
  function spanned(plotted, low, high) {
    const at = plotted.data[0];
    const last = at.at(-1) ?? Date.now() / 1000;
    const first = at[0] ?? last;
    const least = first === last ? Math.max(least_s, MINUTE) : least_s;
    const whole = low === null || (low === first && high >= last); // not a part that was enlarged
    return whole && last - first < least ? [last - least, last] : [low, high];
  }

  function newest(at) {
    return at === undefined ? "–" : time ? clock(at) : number(at);
  }

  const resize = new ResizeObserver(() => {
    if (!place.clientWidth) return;
    if (plot) plot.setSize({ width: place.clientWidth, height });
    else make();
  });
  resize.observe(place);
  const chartOf = {
    element: place,
    remake: () => plot && make(),
    show(columns) {
      shown = columns;
      plot?.setData(columns);
    },
    stop() {
      live.delete(chartOf);
      resize.disconnect();
      plot?.destroy();
    },
  };
  live.add(chartOf);
  return chartOf;
}

/** Draws all charts anew, as the colours have changed. */
export function recolour() {
  for (const one of live) one.remake();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);

/** A range around the values, which is not empty. */
function fitted(_, low, high) {
  if (low === null) return [0, 1];
  const margin = Math.max((high - low) * 0.08, 1);
  return [low >= 0 ? Math.max(low - margin, 0) : low - margin, high + margin];
}

function clock(at) {
  return new Date(at * 1000).toISOString().replace("T", " ").slice(0, 19);
}

/** The time at a line of the grid, as short as the step allows. */
function stamp(at, step) {
  const text = new Date(at * 1000).toISOString();
  if (step >= 86400) return text.slice(0, 10);
  return step >= 60 ? text.slice(11, 16) : text.slice(11, 19);
}

/** The number at a line of the grid: with its fraction if lines are closer than one apart. */
function level(at, step) {
  return step < 1 && Math.abs(at) >= 100 && Math.abs(at) < 1e7 ? at.toLocaleString("en-US", { maximumFractionDigits: 6 }) : number(at);
}

function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${tenths(value / 1e9)} G`;
  if (size >= 1e7) return `${tenths(value / 1e6)} M`;
  return size >= 100 || Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
}

function short(name) {
  return name.length > 12 ? `${name.slice(0, 11)}…` : name;
}
