// What changes the store is asked twice.

import { fill, h } from "./dom.js";
import { errorText } from "./errors.js";

/**
 * Asks in a dialog, first what and then whether really, and acts after both.
 * {title, first: elements, really: text, word: text of the button, act: () => Promise of text}.
 */
export function askTwice({ title, first, really, word, act, done }) {
  const part = h("div", { class: "stack" }, first);
  const said = h("div", {});
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Leave it");
  const next = h("button", { type: "submit", class: "danger" }, "Go on");
  const form = h("form", { method: "dialog", onsubmit: step }, h("h2", {}, title), part, said, h("div", { class: "tools" }, next, close));
  const dialog = h("dialog", { "aria-label": title, onclose: () => dialog.remove() }, form);
  let asked = 0;

  async function step(event) {
    event.preventDefault();
    asked += 1;
    if (asked === 1) {
      part.inert = true;
      fill(said, h("p", { class: "note warn" }, typeof really === "function" ? really() : really));
      next.textContent = word;
      close.focus();
      return;
    }
    next.disabled = true;
    try {
      const outcome = await act();
      fill(said, h("p", { class: "note good" }, outcome));
      next.remove();
      close.textContent = "Close";
      done?.();
    } catch (error) { // what was entered can be corrected, and is asked about again
      fill(said, errorText(error));
      asked = 0;
      part.inert = false;
      next.textContent = "Go on";
      next.disabled = false;
    }
  }

  // Going back in the browser leaves the page about which is asked.
  addEventListener("hashchange", () => dialog.close(), { once: true });
  document.body.append(dialog);
  dialog.showModal();
}
