// Rows of JSON answers in the same form as those of src/answer.js.

import { DIGITS } from "./answer.js";
import { double } from "./format.js";

const NUMBER = /^U?(TINY|SMALL|BIG|HUGE)INT$|^U?INTEGER$|^(FLOAT|DOUBLE)$|^DECIMAL/;
const TIME = /^(TIMESTAMP|DATE|TIME)/;

/** The columns of an answer in JSON, with `value`, `text`, `whole` and `number` by row. */
export function columnsOf(answer) {
  return answer.columns.map(({ name, type }, n) => {
    const kind = NUMBER.test(type) ? "number" : TIME.test(type) ? "time" : type === "BOOLEAN" ? "boolean" : "text";
    const cell = (row) => answer.rows[row][n];
    return {
      name,
      type,
      kind,
      value: (row) => (kind === "number" && typeof cell(row) === "string" ? Number(cell(row)) : cell(row)),
      text: (row) => textOf(cell(row), kind, type === "DOUBLE" ? DIGITS : null),
      whole: (row) => textOf(cell(row), kind),
      number: (row) => numberOf(cell(row), kind),
    };
  });
}

function textOf(cell, kind, digits = null) {
  if (cell === null) return null;
  if (typeof cell === "number") return double(cell, digits);
  if (typeof cell === "object") return JSON.stringify(cell);
  return kind === "time" ? String(cell).replace("T", " ") : String(cell);
}

function numberOf(cell, kind) {
  if (cell === null) return null;
  if (kind === "time") return Date.parse(cell) / 1000;
  const number = kind === "number" ? Number(cell) : NaN;
  return Number.isFinite(number) ? number : null;
}
