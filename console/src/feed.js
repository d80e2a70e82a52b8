// The status of the project, polled while the page is visible, and what it was since the page opened.

import { ask, Lost } from "./server.js";

const EVERY_MS = 2000;
const AGAIN_MS = [2000, 3000, 5000, 10_000];
const KEPT = 1800;

const watchers = new Set();
const histories = new Map();
let timer = null;
let failures = 0;

/** What was heard last: the status, and whether and why the server is away. */
export const feed = { status: null, error: null, againAt: null, heardAt: null };

/** Calls back now, if anything is known, and after each poll. Returns how to stop that. */
export function watch(callback) {
  watchers.add(callback);
  if (feed.status || feed.error) callback(feed);
  return () => watchers.delete(callback);
}

/** The samples of a stream: columns of times, batch, speed and merged, as uPlot takes them. */
export function samples(stream) {
  return histories.get(stream) ?? [[], [], [], []];
}

/** Events a second that answers have taken in over the last half minute; null if not known yet. */
export function rate(stream) {
  const [times, , , merged] = samples(stream);
  const last = times.length - 1;
  const first = times.findIndex((at) => at >= times[last] - 30);
  return last > first ? (merged[last] - merged[first]) / (times[last] - times[first]) : null;
}

/** Polls now and from then on. */
export function start() {
  document.addEventListener("visibilitychange", () => document.hidden || poll());
  poll();
}

async function poll() {
  clearTimeout(timer);
  try {
    feed.status = await ask("/v1/status");
    feed.heardAt = Date.now();
    feed.error = feed.againAt = null;
    failures = 0;
    for (const [name, stream] of Object.entries(feed.status.streams)) sample(name, stream);
  } catch (error) {
    feed.error = error instanceof Lost ? error : Object.assign(error, { answered: true });
    failures += 1;
  }
  const wait = feed.error ? AGAIN_MS[Math.min(failures, AGAIN_MS.length) - 1] : EVERY_MS;
  if (feed.error) feed.againAt = Date.now() + wait;
  for (const callback of watchers) callback(feed);
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(poll, wait);
}

function sample(name, stream) {
  const columns = histories.get(name) ?? [[], [], [], []];
  const batch = stream.batch_events;
  const merged = batch + stream.speed_events;
  [Date.now() / 1000, batch, merged - batch, merged].forEach((value, n) => columns[n].push(value));
  if (columns[0].length > KEPT) for (const column of columns) column.shift();
  histories.set(name, columns);
}
