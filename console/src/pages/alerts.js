// The alerts as they come, each with its state.

import { loading, loadingText } from "../again.js";
import { question } from "../asking.js";
import { choice, fill, h, terms } from "../dom.js";
import { errorText } from "../errors.js";
import { count, quoted } from "../format.js";
import { catalog } from "../server.js";
import { answerTable } from "../table.js";

const EVERY_MS = 3000;
const NEWEST = 200;
const COLUMNS = 'state, created_at, key, event, why, seen_at, partition, "offset"';
const STATES = {
  early: "sent, not judged by the batch layer yet",
  confirmed: "sent, and right",
  withdrawn: "sent, but wrong",
  added: "right, but never sent",
};
const EXAMPLE = `from trilayer import Alert

velocity = Alert(
    "velocity",
    source=transactions,
    key=["card"],
    last=1,
    rule="at BETWEEN last[0].at AND last[0].at + INTERVAL 10 SECONDS",
)
catalog = Catalog(views=[by_card], alerts=[velocity])`;

export function alerts(page, { parts: [chosen], parameters }) {
  let stop = null;
  let left = false;
  fill(page, loadingText());
  catalog().then(
    ({ alerts: found }) => {
      if (left) return;
      if (!found.length) return fill(page, none());
      const alert = found.find(({ name }) => name === chosen) ?? found[0];
      const state = STATES[parameters.get("state")] ? parameters.get("state") : "";
      const place = h("div", { class: "stack" });
      const go = (name, of) => {
        location.hash = `#/alerts/${encodeURIComponent(name)}${of ? `?state=${of}` : ""}`;
      };
      fill(
        page,
        h("div", { class: "tools" },
          choice("Alert", found.map(({ name }) => [name, name]), alert.name, (name) => go(name, state)),
          choice("State", [["", "all"], ...Object.keys(STATES).map((name) => [name, name])], state, (of) => go(alert.name, of))),
        h("p", {}, h("a", { href: `#/sql?${new URLSearchParams({ q: `select * from alerts.${quoted(alert.name)} order by created_at desc limit 100` })}` }, "Ask it in SQL"), ", where each alert also has the events before it, and the key's profile."),
        terms([["stream", alert.stream], ["topic", alert.topic], ["key", alert.key.join(", ")]]),
        place,
      );
      stop = showAlert(place, alert, state);
    },
    (error) => fill(page, errorText(error)),
  );
  return () => {
    left = true;
    stop?.();
  };
}

function none() {
  return [
    h("p", { class: "note" }, "The catalog declares no alerts. An alert is a rule that each event of a stream is judged by, within milliseconds by the speed layer and again, exactly, by the batch layer."),
    h("p", {}, "This is how to declare one, in the file of the catalog; ", h("code", {}, "trilayer up"), " then runs the process that judges events:"),
    h("pre", { tabindex: "0" }, EXAMPLE),
    h("p", { class: "muted" }, "The file docs/alerts.md explains rules, profiles and states."),
  ];
}

function showAlert(place, alert, state) {
  const from = `alerts.${quoted(alert.name)}`;
  const where = state ? ` where state = '${state}'` : "";
  const numbers = h("div", {});
  const rows = h("div", { class: "stack" });
  let timer = null;
  let said = null;
  const wait = () => {
    timer = setTimeout(() => (document.hidden ? wait() : part.now()), EVERY_MS);
  };
  const part = loading(
    place,
    async (signal) => {
      clearTimeout(timer);
      const counts = await question({ sql: `select state, count(*) as n from ${from} group by state order by state` }, signal);
      const newest = await question({ sql: `select ${COLUMNS} from ${from}${where} order by created_at desc limit ${NEWEST}` }, signal);
      return { counts, newest };
    },
    ({ counts, newest }) => {
      if (!numbers.isConnected) fill(place, numbers, rows);
      const found = Object.fromEntries(Array.from({ length: counts.rows }, (_, row) => [counts.columns[0].text(row), counts.columns[1].number(row)]));
      fill(numbers, terms(Object.entries(STATES).map(([name, what]) => [what, h("span", {}, h("span", { class: `tag ${name}` }, name), ` ${count(found[name] ?? 0)}`)])));
      const text = JSON.stringify(newest.columns.map((column) => Array.from({ length: newest.rows }, (_, row) => column.text(row))));
      if (text !== said) {
        said = text;
        const tagged = (name, value) => (name === "state" ? h("span", { class: `tag ${value}` }, value) : null);
        fill(rows, newest.rows ? answerTable(newest.columns, newest.rows, { caption: `The newest ${count(newest.rows)}, newest first`, decorate: tagged }) : h("p", {}, "There is none yet."));
      }
      wait();
    },
  );
  return () => {
    clearTimeout(timer);
    part.stop();
  };
}
