// Events that do not fit their schema: why, which, and sending a correction.

import { loading } from "../again.js";
import { askTwice } from "../confirm.js";
import { choice, fill, h } from "../dom.js";
import { count, counted, time } from "../format.js";
import { marked } from "../marked.js";
import { ask, catalog, path, session } from "../server.js";
import { plainTable } from "../table.js";
import { sentence } from "../words.js";

const LIMIT = 200;

export function quarantine(page, { parts: [stream = ""], parameters }) {
  const all = parameters.get("all") === "true";
  const tools = h("div", { class: "tools" });
  const place = h("div", { class: "stack" });
  fill(page, h("p", { class: "muted" }, marked("An event that does not fit its schema is counted nowhere. It waits here until it is corrected and sent again, or discarded. `trilayer quarantine` does both, and an admin can correct it here.")), tools, place);
  const go = (name, everything) => {
    location.hash = `#/quarantine${name ? `/${encodeURIComponent(name)}` : ""}${everything ? "?all=true" : ""}`;
  };
  catalog().then(
    ({ streams }) => fill(
      tools,
      choice("Stream", [["", "all"], ...streams.map(({ name }) => [name, name])], stream, (name) => go(name, all)),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: all, onchange: (event) => go(stream, event.target.checked) }), "with those replayed or discarded"),
    ),
    () => {}, // the part below says what is wrong
  );
  const part = loading(
    place,
    async (signal) => {
      const [found, { role }] = await Promise.all([ask(path("/v1/quarantine", { stream, limit: LIMIT, all: all || "" }), { signal }), session()]);
      return { ...found, admin: role === "admin" };
    },
    (found) => fill(place, reasonsOf(found), recordsOf(found, part)),
    (status) => JSON.stringify(Object.values(status.streams).map((each) => each.quarantined_in_all)),
  );
  return part.stop;
}

function reasonsOf({ events, reasons }) {
  if (!events) return h("p", { class: "note good" }, "No event waits in quarantine.");
  const rows = reasons.map(({ stream, reason, events: each, newest }) => [stream, count(each), newest, h("code", {}, reason)]);
  return plainTable([["stream"], ["events", "number"], ["newest"], ["reason"]], rows, `${counted(events, "event waits", "events wait")} in quarantine, by reason`);
}

function recordsOf({ records, truncated, admin }, part) {
  if (!records.length) return null;
  const heads = [["stream"], ["place"], ["arrived (UTC)", "time"], ["reason"], ["value"], ["state"]];
  const newestFirst = records.toSorted((a, b) => (b.arrived < a.arrived ? -1 : b.arrived > a.arrived ? 1 : b.offset - a.offset));
  const rows = newestFirst.map((record) => [
    record.stream,
    `${record.partition}:${record.offset}`,
    time(record.arrived),
    h("code", {}, record.reason),
    record.value === null ? h("span", { class: "muted" }, "no value") : h("code", {}, record.value, record.cut && h("span", { class: "muted" }, " … (cut)")),
    stateOf(record, admin, part),
  ]);
  return [
    truncated && h("p", { class: "note" }, `There are more; these are the newest ${count(records.length)}.`),
    plainTable(heads, rows, "The records, newest first"),
  ];
}

function stateOf(record, admin, part) {
  if (record.replayed) return h("span", { class: "tag confirmed" }, "replayed");
  if (record.discarded !== null) return h("span", { class: "tag", title: record.discarded }, "discarded");
  if (!admin) return "open";
  return h("button", { type: "button", class: "small", onclick: () => replay(record, part) }, "Correct …");
}

function replay(record, part) {
  const value = h("textarea", { "aria-label": "Corrected value", spellcheck: "false" });
  value.value = record.value ?? "";
  const place = `${record.partition}:${record.offset}`;
  askTwice({
    title: `Correct ${record.stream} ${place}`,
    first: [h("p", {}, "It does not fit: ", h("code", {}, record.reason)), record.cut && h("p", { class: "note warn" }, "The value is cut: only its beginning is kept."), h("label", { class: "stack" }, "Corrected value", value)],
    really: "Really send this value to the topic? It is counted as an event of now, and can't be taken back.",
    word: "Yes, send it",
    act: async () => {
      const { stream, origin, partition, offset } = record;
      const { sent, before, refused } = await ask("/v1/quarantine/replay", { body: { records: [{ stream, origin, partition, offset, value: value.value }], again: false } });
      if (refused.length) throw new Error(refused.map(sentence).join(" "));
      return before ? "It had been sent before, and was not sent again." : `${counted(sent, "event was", "events were")} sent.`;
    },
    done: part.now,
  });
}
