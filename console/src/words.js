// Where an answer comes from, in words.

import { h } from "./dom.js";
import { count, counted, time } from "./format.js";

/** What an answer is based on: the layer, the publication, the streams and how exact it is. */
export function provenanceText(provenance, layer) {
  const streams = Object.entries(provenance.streams ?? {});
  return h(
    "div",
    { class: "provenance" },
    h("p", {}, baseOf(provenance, layer)),
    streams.map(([name, stream]) => h("p", {}, streamText(name, stream, layer), stream.note && ` ${sentence(stream.note)}`)),
    h("p", {}, exactness(provenance)),
  );
}

function baseOf({ version, t, kind }, layer) {
  if (layer === "speed") return "This is the speed layer's share only: the events from the cut to the head.";
  if (!version) return "There is no publication yet, so the answer has only what the speed layer has seen.";
  const publication = `publication ${version} (${kind}, T = ${time(t)} UTC)`;
  if (layer === "batch") return `This is the batch layer's share only: ${publication}, up to its cut.`;
  return `This is merged from ${publication} below the cut and the speed layer's share above it; every event is counted exactly once.`;
}

function streamText(name, stream, layer) {
  const batch = stream.batch_events ?? 0;
  const speed = stream.speed_events ?? 0;
  const parts = {
    merged: `Of the stream ${name}, the batch layer has the first ${counted(batch, "event")} and the speed layer the next ${count(speed)}`,
    batch: `Of the stream ${name}, it has the first ${counted(batch, "event")}`,
    speed: `Of the stream ${name}, it has the ${counted(speed, "event")} from the cut on`,
  };
  const unfit = stream.quarantined ? `; ${count(stream.quarantined)} of those after the cut are in quarantine and not counted` : "";
  return `${parts[layer]}${unfit}.`;
}

function exactness({ exact, approximate }) {
  const bounds = Object.entries(approximate ?? {}).flatMap(([view, columns]) =>
    Object.entries(columns).map(([column, bound]) => `${view}.${column} (${bound})`),
  );
  if (bounds.length) return `Approximate: ${bounds.join(", ")}. All else is exact.`;
  return exact === false ? "It has approximate columns." : "All columns are exact.";
}

/** A note of the server as a sentence. */
export function sentence(note) {
  return ended(note.charAt(0).toUpperCase() + note.slice(1));
}

/** A note of the server as the end of a sentence. */
export function ended(note) {
  return /[.!?]$/.test(note) ? note : `${note}.`;
}
