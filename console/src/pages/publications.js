// The publications that are kept: when each was cut, what it changed, and how the layers agreed.

import { loading, loadingText, publicationsKey } from "../again.js";
import { askTwice } from "../confirm.js";
import { choice, fill, h, layerName, terms } from "../dom.js";
import { errorText } from "../errors.js";
import { count, counted, offsets, seconds, span, time } from "../format.js";
import { chart } from "../plot.js";
import { columnsOf } from "../rows.js";
import { ask, path, session } from "../server.js";
import { answerTable, plainTable } from "../table.js";
import { sentence } from "../words.js";

const KINDS = ["match", "differ", "missing", "extra"];

export function publications(page, { parts: [chosen, view], parameters }) {
  const line = h("section", { "aria-label": "Timeline" });
  const list = h("section", {});
  const detail = h("section", { class: "stack" });
  fill(page, line, list, detail);
  let drawn = null;
  let stopRows = null;
  let admin = false;
  const part = loading(
    list,
    async (signal) => {
      const [found, who] = await Promise.all([ask("/v1/history", { signal }), session()]);
      admin = who.role === "admin";
      return found.publications;
    },
    (found) => {
      if (!found.length) {
        fill(list, h("p", { class: "note" }, "There is no publication yet. The batch layer writes the first with ", h("code", {}, "trilayer batch run"), "."));
        return;
      }
      drawn?.stop();
      drawn = timeline(found);
      fill(line, h("h2", {}, "Events below the cut, by the time of publishing"), drawn.element);
      fill(list, tableOf(found, chosen));
      const one = found.find(({ version }) => String(version) === chosen) ?? found.find((each) => each.in_force) ?? found.at(-1);
      stopRows?.();
      stopRows = showOne(detail, one, view, parameters.get("kind"), admin && (() => rollback(one, part.now)));
    },
    publicationsKey,
  );
  return () => {
    part.stop();
    drawn?.stop();
    stopRows?.();
  };
}

function timeline(found) {
  const at = found.map((each) => Date.parse(each.published_at) / 1000);
  return chart({
    series: [{ label: "batch", colour: "batch", kind: "steps", fill: true }],
    data: [at, found.map((each) => each.events)],
    zero: true,
    along: "published",
    up: "events",
    least_s: 60,
    label: "Events below the cut of each publication, by the time of publishing",
  });
}

function tableOf(found, chosen) {
  const heads = [["version", "number"], ["kind"], ["T (UTC)", "time"], ["published after T", "number"], ["events", "number"], ["new", "number"], ["changed keys", "number"], ["corrected", "number"], ["differing", "number"]];
  const rows = found.map((each) => {
    const base = found.find(({ version }) => version === each.base);
    return [
      h("a", { href: `#/publications/${each.version}`, "aria-current": String(each.version) === chosen ? "true" : null }, String(each.version)),
      h("span", { class: "tags" }, h("span", { class: `tag ${each.kind}` }, each.kind), each.in_force && h("span", { class: "tag force" }, "in force"), !each.published && h("span", { class: "tag" }, "never in force")),
      time(each.t),
      afterT(each),
      count(each.events),
      base ? `+${count(each.events - base.events)}` : "–",
      count(sum(each.changed_keys)),
      count(sum(each.corrected_keys)),
      each.differing_keys === null ? "not compared" : count(each.differing_keys),
    ];
  });
  return plainTable(heads, rows.reverse(), "Publications that are kept, newest first");
}

/** How long after its T a publication was written; its run may have begun at any time in between. */
function afterT({ t, published_at: at }) {
  return span(seconds(t, at));
}

function sum(numbers) {
  return Object.values(numbers).reduce((all, each) => all + each, 0);
}

function showOne(place, one, view, kind, back) {
  const rows = h("div", { class: "stack" });
  const streams = Object.entries(one.streams).map(([name, share]) => [name, offsets(share.cut), count(share.events), count(share.quarantined), count(share.lost)]);
  fill(
    place,
    h("div", { class: "tools" }, h("h2", {}, `Publication ${one.version}`), back && !one.in_force && one.published && h("button", { type: "button", class: "danger", onclick: back }, `Roll back to version ${one.version}`)),
    terms([
      ["T", `${time(one.t)} UTC`],
      ["published", `${time(one.published_at)} UTC, ${afterT(one)} after T`],
      ["computed from", one.base === null ? "all events" : `version ${one.base} and what came since`],
      ...(one.looked_t ? [["nothing new up to", `${time(one.looked_t)} UTC`]] : []),
    ]),
    plainTable([["stream"], ["cut"], ["events", "number"], ["quarantined", "number"], ["lost", "number"]], streams, "What lies below the cut"),
    plainTable(
      [["view"], ["rows", "number"], ["changed", "number"], ["corrected", "number"], ["match", "number"], ["differ", "number"], ["missing", "number"], ["extra", "number"]],
      Object.keys(one.views).map((name) => {
        const compared = one.reconciliation[name] ?? {};
        const link = (each) => (compared[each] ? h("a", { href: `#/publications/${one.version}/${encodeURIComponent(name)}?kind=${each}` }, count(compared[each])) : count(compared[each]));
        return [
          h("span", {}, h("a", { href: `#/publications/${one.version}/${encodeURIComponent(name)}` }, name), compared.not_compared && h("span", { class: "muted" }, ` not compared: ${compared.not_compared}`)),
          count(one.views[name]),
          count(one.changed_keys[name]),
          count(one.corrected_keys[name]),
          ...KINDS.map(link),
        ];
      }),
      "Its views, and how the speed layer had computed the same events",
    ),
    rows,
  );
  return view ? byKey(rows, one.version, view, KINDS.includes(kind) ? kind : "") : null;
}

/** The keys of a view with what each layer had for them. */
function byKey(place, version, view, kind) {
  const asking = new AbortController();
  const part = h("div", { class: "stack" });
  const options = [["", "all"], ...KINDS.map((each) => [each, each])];
  fill(
    place,
    h("h2", {}, `Reconciliation of ${view} by key`),
    h("p", { class: "muted" }, "What both layers computed from the events that publication added. ", h("em", {}, "Missing"), " is what only the ", layerName("batch"), " layer has, ", h("em", {}, "extra"), " what only the ", layerName("speed"), " layer has."),
    choice("Kind", options, kind, (each) => {
      location.hash = `#/publications/${version}/${encodeURIComponent(view)}${each ? `?kind=${each}` : ""}`;
    }),
    part,
  );
  fill(part, loadingText());
  ask(path("/v1/reconciliation", { view, version, kind, limit: 1000 }), { signal: asking.signal }).then(
    (found) => {
      const tagged = (name, text) => (name === "_kind" ? h("span", { class: `tag ${text}` }, text) : null);
      fill(
        part,
        found.note && h("p", { class: "note" }, sentence(found.note)),
        found.truncated && h("p", { class: "note warn" }, `There are more keys than these ${counted(found.row_count, "row")}.`),
        found.rows.length ? answerTable(columnsOf(found), found.rows.length, { decorate: tagged }) : !found.note && h("p", {}, `No key is of the kind ${kind || "asked for"}.`),
      );
    },
    (error) => error.name === "AbortError" || fill(part, errorText(error)),
  );
  return () => asking.abort();
}

function rollback(one, again) {
  const why = h("input", { type: "text", disabled: true, placeholder: "for those who look later" });
  const hold = h("input", { type: "checkbox", onchange: () => (why.disabled = !hold.checked) });
  askTwice({
    title: `Roll back to version ${one.version}`,
    first: [
      h("p", {}, `Answers are then based on publication ${one.version}, with T = ${time(one.t)} UTC. No event is lost: the speed layer's share begins at its cut.`),
      h("label", { class: "check" }, hold, "Hold it: batch runs change nothing until it is released."),
      h("label", { class: "stack" }, "Why it is held", why),
    ],
    really: () => `Really put version ${one.version} in force${hold.checked ? " and hold it" : ""}? Everyone's answers change at once.`,
    word: `Yes, roll back to version ${one.version}`,
    act: async () => {
      const { publication, warning } = await ask("/v1/rollback", { body: { version: one.version, hold: hold.checked, why: hold.checked ? why.value : "" } });
      return `Version ${publication.version} is in force.${warning ? ` ${sentence(warning)}` : ""}`;
    },
    done: again,
  });
}
