// Parts of pages that load themselves, again whenever the answers may have changed.

import { fill, h } from "./dom.js";
import { errorText } from "./errors.js";
import { watch } from "./feed.js";
import { Lost } from "./server.js";

/**
 * Loads now, and again when `key(status)` differs from the last time or after a failure.
 * `load(signal)` returns what `show` then draws into the element. Returns {now, stop}.
 */
export function loading(element, load, show, key = answersKey) {
  let running = null;
  let known;
  let again = false;
  let shown = false;
  fill(element, loadingText());

  async function now() {
    running?.abort();
    const mine = (running = new AbortController());
    try {
      const loaded = await load(mine.signal);
      if (mine.signal.aborted) return;
      again = false;
      shown = true;
      show(loaded);
    } catch (error) {
      if (error.name === "AbortError" || mine.signal.aborted) return;
      again = true;
      if (!(shown && error instanceof Lost)) fill(element, errorText(error)); // what is shown stays; the header says it
    } finally {
      if (running === mine) running = null;
    }
  }

  const unwatch = watch(({ status, error }) => {
    if (error || !status) return;
    const said = key(status);
    const changed = known !== undefined && said !== known;
    known = said;
    if ((changed || again) && !running) now();
  });
  now();
  return {
    now,
    stop() {
      unwatch();
      running?.abort();
    },
  };
}

/** What stands where something is being loaded. */
export function loadingText() {
  return h("p", { class: "muted" }, "Loading …");
}

/** What changes when answers change: the publication and the heads. */
export function answersKey(status) {
  return JSON.stringify([status.publication?.version, Object.values(status.streams).map((stream) => stream.head)]);
}

/** What changes when publications change. */
export function publicationsKey(status) {
  return JSON.stringify([status.publication?.version, status.publication?.looked_t, status.publication?.held]);
}
