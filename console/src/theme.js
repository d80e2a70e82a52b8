// The switch between the system's theme, light and dark.

import { fill, h } from "./dom.js";
import { recolour } from "./plot.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const SIGN = { system: "◐", light: "☀", dark: "☾" };

/** Makes a button that goes through the themes and remembers the choice. */
export function setUpTheme(button) {
  const root = document.documentElement;
  const say = () => {
    const theme = root.dataset.theme ?? "system";
    fill(button, SIGN[theme], h("span", { class: "word" }, ` ${theme}`)); // a narrow page has only the sign
    button.setAttribute("aria-label", `Theme: ${theme}. Change to ${NEXT[theme]}.`);
  };
  button.addEventListener("click", () => {
    const theme = NEXT[root.dataset.theme ?? "system"];
    if (theme === "system") {
      delete root.dataset.theme;
      localStorage.removeItem("trilayer-theme");
    } else {
      root.dataset.theme = theme;
      localStorage.setItem("trilayer-theme", theme);
    }
    say();
    recolour();
  });
  say();
}
