// Questions in SQL: an editor, the answer as a table or a chart, and the questions asked before.

import { publicationsKey } from "../again.js";
import { csv, FETCHED, question } from "../asking.js";
import { chartOf } from "../charting.js";
import { choice, download, fill, h } from "../dom.js";
import { editor } from "../editor.js";
import { errorText } from "../errors.js";
import { watch } from "../feed.js";
import { count, counted, quoted, tenths } from "../format.js";
import { asked, remember } from "../history.js";
import { marked } from "../marked.js";
import { ask, catalog } from "../server.js";
import { subscribe } from "../subscription.js";
import { answerTable, SHOWN } from "../table.js";
import { provenanceText } from "../words.js";

const LAYERS = ["merged", "batch", "speed"];

export function sqlPage(page, { parameters }) {
  let layer = "merged";
  let version = null;
  let running = null;
  let stopLive = null;
  let shown = null;
  let shape = "table";
  let stopChart = null;
  let sort = null;
  const write = editor(parameters.get("q") ?? asked()[0]?.sql ?? "", run);
  const result = h("section", { class: "stack", "aria-label": "Answer" });
  const state = h("span", { class: "muted", role: "status" });
  const button = {
    run: h("button", { type: "button", class: "primary", title: "Ctrl-Enter", onclick: run }, "Run"),
    cancel: h("button", { type: "button", disabled: true, onclick: cancel }, "Cancel"),
    live: h("button", { type: "button", "aria-pressed": "false", title: "Keep the answer current", onclick: live }, "Live"),
    csv: h("button", { type: "button", title: "All rows, as a file", onclick: save }, "Download CSV"),
  };
  const versions = h("span", {});
  const earlier = h("ol", { class: "history" });
  const before = h("details", {}, h("summary", {}, "Questions asked before"), earlier);
  fill(
    page,
    write.element,
    h("div", { class: "tools" }, button.run, button.cancel, button.live, button.csv, layers(), versions, state),
    before,
    result,
  );
  listEarlier();
  complete();
  offerVersions();
  let offered;
  const unwatch = watch(({ status }) => {
    if (!status) return;
    const known = offered;
    offered = publicationsKey(status);
    if (known !== undefined && known !== offered) offerVersions();
  });
  if (parameters.get("q")) run();
  else {
    write.focus();
    suggest();
  }

  function layers() {
    return choice("Layer", LAYERS.map((name) => [name, name]), layer, (name) => {
      layer = name;
      complete();
    });
  }

  /** Completion of every schema's views, and of the columns of the chosen layer's. */
  async function complete() {
    const { views, queries } = await catalog().catch(() => ({ views: [], queries: [] }));
    const tables = Object.fromEntries([...views, ...queries].map(({ name, columns }) => [name, (columns ?? []).map((column) => column.name)]));
    const arrivals = Object.fromEntries(views.map(({ name, columns }) => [name, ["_tick", ...columns.map((column) => column.name)]]));
    write.complete({ merged: tables, batch: tables, speed: tables, arrivals }, layer);
  }

  async function offerVersions() {
    const { publications } = await ask("/v1/history").catch(() => ({ publications: [] }));
    const kept = publications.filter(({ published }) => published).reverse();
    const options = [["", "newest"], ...kept.map(({ version: each, in_force: now }) => [String(each), now ? `${each} (in force)` : String(each)])];
    if (version !== null && !kept.some((each) => each.version === version)) options.push([String(version), `${version} (not kept)`]);
    fill(versions, choice("Based on", options, version === null ? "" : String(version), (each) => {
      version = each ? Number(each) : null;
      busy(running !== null);
      if (version !== null) endLive();
    }));
  }

  /** Says what can be asked while nothing has been. */
  async function suggest() {
    const { views, queries } = await catalog().catch(() => ({ views: [], queries: [] }));
    const questions = examples(views, queries);
    if (!questions.length || result.hasChildNodes() || running || stopLive) return;
    const offer = (sql) => h("li", {}, h("button", { type: "button", onclick: () => (write.set(sql), run()) }, sql));
    fill(
      result,
      h("p", { class: "muted" }, "Write one SELECT above and run it with Ctrl-Enter, or try one of these:"),
      h("ul", { class: "history", "aria-label": "Examples" }, questions.map(offer)),
      h("p", { class: "muted" }, "The page ", h("a", { href: "#/views" }, "Views"), " has all names and columns."),
    );
  }

  function listEarlier() {
    const all = asked();
    before.hidden = !all.length;
    fill(earlier, all.map(({ sql, at }) => h("li", {}, h("button", { type: "button", title: `${sql}\n\nasked at ${at}`, onclick: () => (write.set(sql), write.focus()) }, sql.replace(/\s+/g, " ")))));
  }

  function busy(is) {
    button.run.disabled = is;
    button.cancel.disabled = !is;
    button.live.disabled = is || version !== null; // an older publication's answer does not move
    button.csv.disabled = is;
    state.textContent = is ? "The question runs …" : "";
  }

  async function run() {
    const sql = write.text().trim().replace(/;$/, "");
    if (!sql || running) return;
    endLive();
    const mine = (running = new AbortController());
    busy(true);
    const mode = { sql, layer, version };
    sort = null;
    remember(sql);
    listEarlier();
    try {
      const answer = await question(mode, mine.signal);
      if (running === mine) show({ ...answer, ...mode });
    } catch (error) {
      if (running !== mine) return;
      shown = null;
      fill(result, error.name === "AbortError" ? h("p", { class: "note" }, "The question was cancelled.") : errorText(error, sql));
    } finally {
      if (running === mine) {
        running = null;
        busy(false);
      }
    }
  }

  function cancel() {
    running?.abort();
  }

  function live() {
    if (stopLive) {
      endLive();
      return;
    }
    const sql = write.text().trim().replace(/;$/, "");
    if (!sql || running) return;
    remember(sql);
    listEarlier();
    sort = null;
    button.live.setAttribute("aria-pressed", "true");
    stopLive = subscribe({ sql, layer }, {
      answer: (answer) => show({ ...answer, sql, layer, live: true }),
      failed: (error) => {
        endLive();
        fill(result, errorText(error, sql));
      },
      lost: () => (state.textContent = "The connection is lost; the answer goes on when the server is back."),
      heard: () => (state.textContent = "The answer is kept current."),
    });
  }

  function endLive() {
    stopLive?.();
    stopLive = null;
    button.live.setAttribute("aria-pressed", "false");
    state.textContent = "";
  }

  function show(answer) {
    shown = answer;
    draw();
  }

  function draw() {
    stopChart?.();
    stopChart = null;
    const { columns, rows, truncated, ms, provenance, layer: of, live: kept } = shown;
    const place = result.querySelector(".shape");
    const scroll = place?.querySelector(".scroll");
    const from = scroll ? [scroll.scrollLeft, scroll.scrollTop] : null;
    const body = h("div", { class: "shape stack" });
    if (shape === "chart") {
      const drawn = chartOf(columns, rows, of);
      stopChart = drawn.stop;
      fill(body, drawn.element);
    } else {
      fill(body, rows || columns.length ? answerTable(columns, rows, { sort, onsort: (by) => (sort = by) }) : null);
    }
    fill(
      result,
      h("div", { class: "tools" }, shapes(), h("span", { class: "muted" }, kept ? `${counted(rows, "row")}, kept current.` : `${counted(rows, "row")} in ${tenths(ms)} ms.`)),
      truncated && h("p", { class: "note warn" }, marked(`The answer has more than ${count(FETCHED)} rows. The first ${count(FETCHED)} were fetched, of which ${count(SHOWN)} are shown; \`Download CSV\` fetches all.`)),
      body,
      provenanceText(provenance, of),
    );
    const anew = result.querySelector(".shape .scroll");
    if (from && anew && kept) [anew.scrollLeft, anew.scrollTop] = from;
  }

  function shapes() {
    const turn = (name) => () => {
      shape = name;
      draw();
    };
    return h("div", { class: "tabs", role: "group", "aria-label": "Shape of the answer" }, ["table", "chart"].map((name) =>
      h("button", { type: "button", "aria-pressed": String(shape === name), onclick: turn(name) }, name === "table" ? "Table" : "Chart"),
    ));
  }

  async function save() {
    const sql = write.text().trim().replace(/;$/, "");
    if (!sql || running) return;
    const mine = (running = new AbortController());
    busy(true);
    try {
      download("answer.csv", await csv({ sql, layer, version }, mine.signal));
    } catch (error) {
      fill(result, error.name === "AbortError" ? h("p", { class: "note" }, "The download was cancelled.") : errorText(error, sql));
    } finally {
      running = null;
      busy(false);
    }
  }

  return () => {
    unwatch();
    running?.abort();
    running = null;
    endLive();
    stopChart?.();
  };
}

/** Questions that a catalog's first views and queries answer. */
function examples(views, queries) {
  const [view] = views;
  const measure = view?.aggregates[0];
  return [
    view && `select * from ${quoted(view.name)} limit 20`,
    measure && `select * from ${quoted(view.name)} order by ${quoted(measure.name)} desc limit 10`,
    view && `select count(*) as keys from ${quoted(view.name)}`,
    queries.length && `select * from ${quoted(queries[0].name)}`,
  ].filter(Boolean);
}
