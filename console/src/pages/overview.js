// How far each stream is, how the layers share it, what runs, and what is wrong.

import { loadingText } from "../again.js";
import { draw, fill, h, layerName, setStyle, terms } from "../dom.js";
import { rate, samples, watch } from "../feed.js";
import { count, counted, percent, seconds, span, tenths, time } from "../format.js";
import { chart } from "../plot.js";
import { plainTable } from "../table.js";
import { marked } from "../marked.js";
import { warningsOf } from "../warnings.js";

/** Up to how many partitions are shown unasked. */
const FEW = 8;

export function overview(page) {
  const warnings = h("section", { "aria-label": "Warnings" });
  const facts = h("section", { class: "facts", "aria-label": "In short" });
  const streams = h("section", { class: "cards", "aria-label": "Streams" });
  const processes = h("section", { class: "stack" });
  fill(page, warnings, facts, streams, processes);
  const cards = new Map();
  fill(warnings, loadingText());
  const stop = watch(({ status }) => {
    if (!status) return;
    draw(warnings, warningsOf(status), showWarnings);
    draw(facts, factsOf(status), (pairs) => terms(pairs));
    for (const [name, stream] of Object.entries(status.streams)) {
      if (!cards.has(name)) {
        cards.set(name, streamCard(name));
        streams.append(cards.get(name).element);
      }
      cards.get(name).show(stream);
    }
    draw(processes, [status.processes, status.airflow], showProcesses);
  });
  return () => {
    stop();
    for (const card of cards.values()) card.stop();
  };
}

function showWarnings(found) {
  if (!found.length) return h("p", { class: "note good" }, "Nothing needs attention.");
  return found.map(({ level, what, todo }) =>
    h("div", { class: `note ${level}` }, h("p", {}, marked(what)), todo && h("p", { class: "hint" }, marked(todo))),
  );
}

function factsOf({ publication, views, streams }) {
  const all = Object.values(streams);
  const events = all.reduce((sum, stream) => sum + stream.batch_events + stream.speed_events, 0);
  const rows = Object.values(views).reduce((sum, view) => sum + (view.rows ?? 0), 0);
  return [
    ["publication", publication ? `${publication.version}, ${publication.kind}` : "none yet"],
    ["T", publication ? `${time(publication.t)} UTC` : "–"],
    ["since T", publication ? span(Math.floor(publication.lag_s / 5) * 5) : "–"],
    ["views", `${count(Object.keys(views).length)} with ${counted(rows, "row")}`],
    ["streams", `${count(all.length)} with ${counted(events, "event")}`],
  ];
}

function streamCard(name) {
  const bar = { batch: h("span", { class: "batch" }), speed: h("span", { class: "speed" }), behind: h("span", { class: "behind" }) };
  const legend = h("p", { class: "shares" });
  const numbers = h("div", {});
  const partitions = h("div", {});
  const layers = chart({
    series: [
      { label: "merged", colour: "merged", kind: "steps" },
      { label: "batch", colour: "batch", kind: "steps" },
    ],
    bands: [[1, 2, "speed"]],
    data: [[], [], []],
    up: "events",
    least_s: 60,
    label: `Events of ${name} over time: those below the head, up to which merged answers reach, and those below the cut, up to which the batch layer reaches`,
  });
  const above = chart({
    series: [{ label: "speed", colour: "speed", kind: "steps", fill: true }],
    data: [[], []],
    zero: true,
    up: "events",
    least_s: 60,
    label: `The speed layer's share of ${name} over time, in events`,
  });
  const element = h(
    "article",
    { class: "card" },
    h("h2", {}, name),
    h("div", { class: "bar", "aria-hidden": "true" }, bar.batch, bar.speed, bar.behind),
    legend,
    numbers,
    h("h3", {}, layerName("merged"), " up to the head, ", layerName("batch"), " up to the cut"),
    layers.element,
    h("h3", {}, layerName("speed"), " from the cut to the head"),
    above.element,
    partitions,
  );
  return {
    element,
    show(stream) {
      const { batch_events: batched, speed_events: live, lag_events: lag } = stream;
      const head = batched + live;
      const behind = lag ?? 0;
      const whole = head + behind;
      const shares = { batch: batched, speed: live, behind };
      for (const [part, of] of Object.entries(shares)) setStyle(bar[part], { "flex-grow": whole ? of / whole : 0 });
      draw(legend, [shares, whole], () => [
        h("span", {}, layerName("batch"), ` ${percent(batched, whole)}`),
        h("span", {}, layerName("speed"), ` ${percent(live, whole)}`),
        lag === null ? null : h("span", {}, h("span", { class: "layer behind" }, "not read yet"), ` ${percent(behind, whole)}`),
      ]);
      const perSecond = rate(name);
      const unfit = stream.quarantined_in_all;
      draw(numbers, [batched, live, lag, stream.lag_s, perSecond, unfit], () => terms([
        ["in the log", lag === null ? "unknown" : counted(whole, "event")],
        ["up to the head", counted(head, "event")],
        ["batch layer", counted(batched, "event")],
        ["speed layer", counted(live, "event")],
        ["lag", lag === null ? "unknown" : `${counted(lag, "event")}, ${span(stream.lag_s)}`],
        ["events a second", perSecond === null ? "…" : tenths(perSecond)],
        ["quarantined", unfit ? h("a", { href: `#/quarantine/${encodeURIComponent(name)}` }, count(unfit)) : "0"],
      ]));
      draw(partitions, [stream.head, stream.cut, stream.end], () => partitionsOf(stream, partitions));
      const [times, batch, speed, merged] = samples(name);
      layers.show([times, merged, batch]);
      above.show([times, speed]);
    },
    stop() {
      layers.stop();
      above.stop();
    },
  };
}

function partitionsOf({ head, cut, end }, place) {
  const open = place.querySelector("details")?.open ?? Object.keys(head).length <= FEW;
  const rows = Object.keys(head)
    .sort((a, b) => a - b)
    .map((partition) => [partition, count(cut[partition]), count(head[partition]), end ? count(end[partition]) : "unknown"]);
  return h(
    "details",
    { open },
    h("summary", {}, counted(rows.length, "partition")),
    plainTable([["partition", "number"], ["cut", "number"], ["head", "number"], ["end of the log", "number"]], rows, "Offsets by partition"),
  );
}

function showProcesses([processes, airflow]) {
  const rows = processes.map(({ name, pid, started_at: since, memory_mib: memory, log }) => [
    name,
    String(pid),
    `${count(memory)} MiB`,
    span(Math.floor(seconds(since) / 60) * 60),
    h("code", {}, log),
  ]);
  return [
    h("h2", {}, "Processes"),
    rows.length
      ? plainTable([["process"], ["pid", "number"], ["memory", "number"], ["running for", "number"], ["log"]], rows, "Processes of the local stack")
      : h("p", { class: "muted" }, marked("No process of the local stack runs on this machine; `trilayer up` starts it.")),
    airflow && h("p", {}, "Airflow: ", h("a", { href: airflow.url, rel: "noreferrer" }, airflow.url), `, user ${airflow.user}, password in `, h("code", {}, airflow.password_file)),
  ];
}
