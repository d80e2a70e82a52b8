// The frame of the console: pages by hash, navigation, the state of the connection and the theme.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { fill, h } from "./dom.js";
import { errorText } from "./errors.js";
import { feed, start, watch } from "./feed.js";
import { alerts } from "./pages/alerts.js";
import { lateness } from "./pages/lateness.js";
import { overview } from "./pages/overview.js";
import { publications } from "./pages/publications.js";
import { quarantine } from "./pages/quarantine.js";
import { sqlPage } from "./pages/sql.js";
import { views } from "./pages/views.js";
import { session } from "./server.js";
import { setUpTheme } from "./theme.js";
import { sentence } from "./words.js";

const PAGES = {
  overview: ["Overview", overview],
  views: ["Views", views],
  sql: ["SQL", sqlPage],
  publications: ["Publications", publications],
  quarantine: ["Quarantine", quarantine],
  lateness: ["Lateness", lateness],
  alerts: ["Alerts", alerts],
};

const main = document.getElementById("main");
let leave = null;

/** Shows the page that the hash names: #/page/part?name=value. */
function route({ focus = true } = {}) {
  if (location.hash && !location.hash.startsWith("#/")) return;
  const [path, query = ""] = location.hash.slice(2).split("?");
  const [name, ...parts] = path.split("/").map(decodeURIComponent);
  const chosen = PAGES[name] ? name : "overview";
  const [title, show] = PAGES[chosen];
  leave?.();
  document.title = `${title} · trilayer`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === chosen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const page = h("div", { class: `page ${chosen}` });
  fill(main, h("h1", {}, title), page);
  try {
    leave = show(page, { parts, parameters: new URLSearchParams(query) }) ?? null;
  } catch (error) {
    leave = null;
    fill(page, errorText(error));
  }
  if (focus) main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** The links to the pages, and the digits that follow them while nothing is being typed. */
function setUpNavigation() {
  const names = Object.keys(PAGES);
  document.querySelector("nav").append(
    ...names.map((name, n) =>
      h("a", { href: `#/${name}`, "data-page": name, "aria-keyshortcuts": n + 1 }, h("kbd", { "aria-hidden": "true" }, n + 1), PAGES[name][0]),
    ),
  );
  document.addEventListener("keydown", (event) => {
    const typing = event.composedPath()[0].closest?.("input, textarea, select, [contenteditable], dialog");
    if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
    const name = names[Number(event.key) - 1];
    if (name) location.hash = `#/${name}`;
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
}

/** Says whether the server answers, and which publication is in force. */
function setUpConnection() {
  const state = document.getElementById("connection");
  const words = h("span");
  const countdown = h("span", { "aria-hidden": "true" }); // a screen reader would say every second
  fill(state, h("span", {}, words, countdown));
  const inForce = document.getElementById("in-force");
  let lost = false;
  let known = false;
  const say = () => {
    const { error, againAt, status } = feed;
    if (lost && !error && main.querySelector(":scope > .page > [data-lost]")) route({ focus: false });
    lost = Boolean(error);
    if (status && !error && !known) {
      known = true;
      saySession();
    }
    state.className = error ? "lost" : status ? "connected" : "";
    const wait = againAt ? Math.max(Math.ceil((againAt - Date.now()) / 1000), 0) : 0;
    const wrong = error?.answered ? sentence(error.message) : "The connection is lost.";
    const text = error ? `${wrong} It is tried again` : status ? "connected" : "connecting";
    if (words.textContent !== text) words.textContent = text;
    countdown.textContent = error ? (wait ? ` in ${wait} s.` : " now.") : "";
    const version = status?.publication ? `publication ${status.publication.version}${status.publication.held ? ", held" : ""}` : "";
    if (inForce.textContent !== version) inForce.textContent = version;
  };
  watch(say);
  setInterval(() => feed.error && say(), 1000);
  say();
}

async function saySession() {
  const { user, role } = await session().catch(() => ({})); // the state of the connection says what is wrong
  document.getElementById("who").textContent = user ? `${user} (${role})` : "";
}

setUpNavigation();
setUpTheme(document.getElementById("theme"));
setUpConnection();
addEventListener("hashchange", () => route());
route({ focus: false });
start();
