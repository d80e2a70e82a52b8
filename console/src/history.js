// The questions asked in this browser, newest first.

const NAME = "trilayer-questions";
const KEPT = 50;

/** The questions: {sql, at}. */
export function asked() {
  try {
    const found = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each?.sql === "string") : [];
  } catch {
    return [];
  }
}

/** Puts a question first; one that was asked before moves. */
export function remember(sql) {
  const others = asked().filter((each) => each.sql !== sql);
  const at = new Date().toISOString().slice(0, 16).replace("T", " ");
  try {
    localStorage.setItem(NAME, JSON.stringify([{ sql, at }, ...others].slice(0, KEPT)));
  } catch {
    // The browser keeps nothing for this page, so there is no history.
  }
}
