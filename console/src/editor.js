// The editor of SQL: CodeMirror with the catalog's names.
// It lives in a shadow root, where CodeMirror adopts its styles instead of writing them into the
// page; so the content security policy needs no exception.

import { closeCompletion } from "@codemirror/autocomplete";
import { sql } from "@codemirror/lang-sql";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment, Prec } from "@codemirror/state";
import { drawSelection, EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { basicSetup } from "codemirror";
import { dialect } from "./dialect.js";
import { h } from "./dom.js";

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
    { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
    { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
    { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
    { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--code-type)" },
  ]),
);

const look = EditorView.theme({
  "&": { backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "0.875rem" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)" },
  ".cm-content, .cm-gutter": { minHeight: "7.5rem" },
  ".cm-scroller": { maxHeight: "40vh", lineHeight: "1.5" },
  ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { backgroundColor: "var(--selected)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selected)", color: "inherit" },
  ".cm-selectionMatch": { backgroundColor: "var(--selected)" },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete": { marginTop: "3px" }, // does not hide the line's underscores
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--focus)", color: "var(--on-focus)" },
  ".cm-completionIcon": { opacity: "0.5" },
  ".cm-textfield, .cm-button": { background: "var(--ground)", color: "var(--text)", border: "1px solid var(--line)" },
});

/**
 * What is typed over a selection. Chrome would keep the look of the deleted text in a style
 * attribute, which the content security policy refuses and reports; so it is not left to it.
 */
const typingOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main;
    if (event.inputType !== "insertText" || !event.data || empty || view.composing || view.state.readOnly) return false;
    const typed = () => view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    const handled = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, event.data, typed));
    if (!handled) view.dispatch(typed());
    event.preventDefault();
    return true;
  },
});

/** An editor with `run` on Ctrl-Enter (Cmd-Enter on a Mac). */
export function editor(text, run) {
  const place = h("div", { class: "editor" });
  const root = place.attachShadow({ mode: "open" });
  const language = new Compartment();
  const act = (view) => {
    closeCompletion(view);
    run();
    return true;
  };
  const keys = [{ key: "Mod-Enter", run: act }, { key: "Ctrl-Enter", run: act }];
  const view = new EditorView({
    doc: text,
    root,
    parent: root,
    extensions: [
      Prec.highest(keymap.of(keys)),
      typingOver,
      basicSetup,
      matchMedia("(prefers-reduced-motion: reduce)").matches ? drawSelection({ cursorBlinkRate: 0 }) : [],
      language.of(sql({ dialect })),
      colours,
      look,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": "Question in SQL; Control and Enter runs it" }),
    ],
  });
  return {
    element: place,
    text: () => view.state.doc.toString(),
    set: (said) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: said } }),
    focus: () => view.focus(),
    /** Completes the names of schemas, tables and columns: {schema: {table: [column]}}. */
    complete(schemas, layer) {
      const names = sql({ dialect, schema: schemas, defaultSchema: layer, upperCaseKeywords: false });
      const columns = dialect.language.data.of({ autocomplete: columnsOfNamed(schemas[layer] ?? {}) });
      view.dispatch({ effects: language.reconfigure([names, columns]) });
    },
  };
}

/** Completes columns of those views whose names the question has anywhere, also before FROM. */
function columnsOfNamed(tables) {
  return (context) => {
    const word = context.matchBefore(/\w+/);
    const before = context.state.sliceDoc(Math.max((word?.from ?? 0) - 1, 0), word?.from ?? 0);
    if (!word || before === ".") return null;
    const text = context.state.doc.toString();
    const named = Object.entries(tables).filter(([table]) => new RegExp(`\\b${RegExp.escape?.(table) ?? table}\\b`).test(text));
    const options = named.flatMap(([table, columns]) => columns.map((label) => ({ label, detail: table, type: "property", boost: 5 })));
    return options.length ? { from: word.from, options, validFor: /^\w*$/ } : null;
  };
}
