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
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** The seconds from one ISO time to another, or to now. */
export function seconds(from, to = null) {
  return ((to ? Date.parse(to) : Date.now()) - Date.parse(from)) / 1000;
}

/** The sum of the offsets of a cut; null without one. */
export function total(cut) {
  return cut ? Object.values(cut).reduce((sum, offset) => sum + offset, 0) : null;
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
