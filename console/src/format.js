// How numbers, times and offsets are written.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

/** 8759 as 8,759; null as a dash. */
export function count(number) {
  return number === null || number === undefined ? "–" : WHOLE.format(number);
}

/** A number with at most one decimal. */
export function tenths(number) {
  return TENTHS.format(number);
}

/**
 * A double as its shortest text: no digits beyond those that it has, which String() adds from 2^53
 * to 10^21. With `digits`, a fraction is rounded to that many.
 */
export function double(value, digits = null) {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value)) {
    return Math.abs(value) < 2 ** 53 ? String(value) : value.toExponential();
  }
  return String(digits === null ? value : Number(value.toPrecision(digits)));
}

/** "1 event", "2 events". */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** An ISO time as 2026-11-26 02:11:23, in UTC. */
export function time(iso) {
  return iso ? iso.replace("T", " ").replace(/(\.\d+)?(Z|\+00:00)$/, "") : "–";
}

/** A span of seconds in its largest one or two units. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 10) return `${tenths(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return units(whole, 60, "min", 1, "s");
  if (whole < 86400) return units(whole, 3600, "h", 60, "min");
  return units(whole, 86400, "d", 3600, "h");
}

function units(seconds, large, name, small, second) {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${name}${rest ? ` ${rest} ${second}` : ""}`;
}

/** The seconds from one ISO time to another, or to now. */
export function seconds(from, to = null) {
  return ((to ? Date.parse(to) : Date.now()) - Date.parse(from)) / 1000;
}

/** A cut as partition:offset pairs. */
export function offsets(cut) {
  if (!cut) return "–";
  const pairs = Object.entries(cut).sort(([a], [b]) => a - b);
  return pairs.map(([partition, offset]) => `${partition}:${offset}`).join(" ");
}

/** A part of a whole in percent, with more digits the smaller it is. */
export function percent(part, whole) {
  if (!whole) return "0 %";
  const share = (100 * part) / whole;
  return `${share >= 10 || share === 0 ? share.toFixed(0) : share.toFixed(share < 1 ? 2 : 1)} %`;
}

/** A name as SQL writes it. */
export function quoted(name) {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
