// Making elements without a framework. Text is always text: nothing here parses HTML.

/**
 * Makes an element.
 * Attributes that begin with "on" are listeners, `style` is an object of properties, and an
 * attribute that is null, undefined or false is left out. So is such a child.
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") setStyle(element, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Sets properties by the object model, which the content security policy allows. */
export function setStyle(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
}

/** Replaces all that an element contains. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

const drawn = new WeakMap();

/** Draws anew only if `data` differs from the last time, so that focus and selection stay. */
export function draw(element, data, make) {
  const said = JSON.stringify(data);
  if (drawn.get(element) === said) return;
  drawn.set(element, said);
  fill(element, make(data));
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** A labelled choice of one among [value, text] pairs. */
export function choice(label, options, chosen, onchoose) {
  const select = h(
    "select",
    { "aria-label": label, onchange: () => onchoose(select.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
  return h("label", { class: "choice" }, h("span", {}, label), select);
}

/** A list of terms and what they are: [term, description] pairs. */
export function terms(pairs) {
  return h("dl", { class: "terms" }, pairs.map(([term, what]) => h("div", {}, h("dt", {}, term), h("dd", {}, what))));
}

/** A coloured word for a layer. */
export function layerName(layer) {
  return h("span", { class: `layer ${layer}` }, layer);
}

/** Offers a file for download. */
export function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
