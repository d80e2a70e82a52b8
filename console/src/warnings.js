// What is wrong or worth knowing in a status, and what to do about it.

import { count, counted, span, time } from "./format.js";
import { ended, sentence } from "./words.js";

/** The warnings of a status: {level: "bad" | "warn" | "info", what, todo}. */
export function warningsOf(status) {
  return [
    ...publicationWarnings(status),
    ...Object.entries(status.streams).flatMap(([name, stream]) => streamWarnings(name, stream)),
    ...Object.entries(status.alerts).flatMap(([name, alert]) => alertWarnings(name, alert)),
    ...Object.entries(status.changelogs)
      .filter(([, changelog]) => changelog.note)
      .map(([name, changelog]) => ({
        level: "warn",
        what: `Changelog ${name}: ${ended(changelog.note)}`,
        todo: "Its writer is part of `trilayer up`; alone it is `trilayer changelog run`.",
      })),
    ...Object.entries(status.views)
      .filter(([, view]) => view.note && !saidOfStream(view, status.streams))
      .map(([, view]) => ({ level: "warn", what: sentence(view.note), todo: "" })),
  ];
}

/** Whether a view has no answer for what is said of its stream. */
function saidOfStream(view, streams) {
  const said = streams[view.stream]?.note;
  return Boolean(said) && view.note.endsWith(said);
}

function publicationWarnings({ publication, speed_note: speed }) {
  const found = [];
  if (!publication) {
    found.push({ level: "warn", what: "There is no publication yet.", todo: "Run `trilayer batch run`, or wait for the schedule of Airflow." });
  } else if (publication.ahead) {
    found.push({
      level: "bad",
      what: `T = ${time(publication.t)} UTC is later than now: it was cut by a machine whose clock was ahead, or this one's is behind.`,
      todo: "Set the clock that is wrong, or run `trilayer batch run --accept-clock`.",
    });
  } else if (publication.late) {
    const behind = span(Math.max(publication.lag_s, publication.uncovered_s ?? 0));
    found.push({
      level: "bad",
      what: `The batch layer is late: its cut lags by ${behind}.`,
      todo: publication.held ? "The version is held; see below." : "Look at the runs of lambda_batch in Airflow, or run `trilayer batch run`.",
    });
  }
  if (publication?.held) {
    const { who, why, since } = publication.held;
    found.push({
      level: "warn",
      what: `Version ${publication.version} has been held since ${time(since)} UTC by ${who}${why ? `: ${why}` : ""}.`,
      todo: "Batch runs end without a change until `trilayer batch release`.",
    });
  }
  if (speed) {
    found.push({ level: "bad", what: `Speed layer: ${ended(speed)}`, todo: "`trilayer up` starts it again by itself; alone it is `trilayer speed run`." });
  }
  return found;
}

function streamWarnings(name, stream) {
  const found = [];
  const begun = stream.generation !== null || Object.keys(stream.cut).length > 0;
  const start = begun ? "" : "`trilayer up` starts both layers.";
  if (stream.note) found.push({ level: "warn", what: `Stream ${name}: ${ended(stream.note)}`, todo: start });
  if (stream.lag_events === null) {
    found.push({
      level: "info",
      what: `Stream ${name}: the end of the log and the lag are unknown, as no broker answers or the topic does not exist.`,
      todo: "Answers are complete up to the head. Start the broker, or correct `bootstrap_servers`.",
    });
  }
  if (stream.compaction) {
    found.push({
      level: "warn",
      what: `Stream ${name}: commits have not been compacted since ${time(stream.compaction.since)} UTC: ${ended(stream.compaction.reason)}`,
      todo: "Reading them takes longer and longer until that is put right.",
    });
  }
  for (const [partition, offset, stamp] of stream.ahead ?? []) {
    found.push({
      level: "warn",
      what: `Stream ${name}, partition ${partition}: offset ${count(offset)} is stamped ${time(stamp)} UTC, which is later than now.`,
      todo: "Cuts pass it by, or wait for it a tick at most; see docs/seam.md.",
    });
  }
  return found;
}

function alertWarnings(name, alert) {
  const found = [];
  if (alert.note) found.push({ level: "warn", what: `Alert ${name}: ${ended(alert.note)}`, todo: "" });
  if (alert.scattered) {
    found.push({
      level: "warn",
      what: `Alert ${name}: ${counted(alert.scattered, "key has", "keys have")} events in several partitions of ${alert.stream}, and its rule looks at one partition.`,
      todo: "Send records with that key, as `Stream(record_key=...)` explains.",
    });
  }
  return found;
}
