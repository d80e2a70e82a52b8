// Answers in Arrow's format as columns whose values are exact: JavaScript's numbers hold neither
// 64-bit integers nor decimals, and its dates no microseconds.

import { Precision, tableFromIPC, Type, Vector } from "apache-arrow";
import { counted, double } from "./format.js";

/**
 * The columns and rows of an answer.
 * Each column has a name, a type in words, a kind ("number", "time", "text", "boolean" or "other"),
 * and by row: `value`, which can be compared; `text`, as it is shown; `whole`, the text with all
 * digits; and `number`, for a chart.
 */
export function readAnswer(bytes) {
  const table = tableFromIPC(bytes);
  const columns = table.schema.fields.map((field, n) => column(field, table.getChildAt(n)));
  return { columns, rows: table.numRows };
}

/** How many digits of a double are shown, of at most 17 that it has. */
export const DIGITS = 12;

function column(field, vector) {
  const parts = vector?.data ?? [];
  const type = field.type;
  const values = [];
  for (const part of parts) for (let i = 0; i < part.length; i += 1) values.push(valueAt(part, i));
  const kind = kindOf(type);
  return {
    name: field.name,
    type: typeName(type),
    kind,
    value: (row) => values[row],
    text: (row) => (values[row] === null ? null : textOf(type, values[row], DIGITS)),
    whole: (row) => (values[row] === null ? null : textOf(type, values[row])),
    number: (row) => numberOf(type, values[row]),
  };
}

function kindOf(type) {
  if ([Type.Int, Type.Float, Type.Decimal].includes(type.typeId)) return "number";
  if ([Type.Timestamp, Type.Date, Type.Time].includes(type.typeId)) return "time";
  if (type.typeId === Type.Bool) return "boolean";
  if (type.typeId === Type.Dictionary) return kindOf(type.dictionary);
  return [Type.Utf8, Type.LargeUtf8].includes(type.typeId) ? "text" : "other";
}

function typeName(type) {
  switch (type.typeId) {
    case Type.Int:
      return `${type.isSigned ? "" : "U"}${{ 8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT" }[type.bitWidth]}`;
    case Type.Float:
      return ["HALF", "FLOAT", "DOUBLE"][type.precision];
    case Type.Decimal:
      return `DECIMAL(${type.precision},${type.scale})`;
    case Type.Timestamp:
      return type.timezone ? "TIMESTAMPTZ" : "TIMESTAMP";
    case Type.Date:
      return "DATE";
    case Type.Time:
      return "TIME";
    case Type.Bool:
      return "BOOLEAN";
    case Type.Utf8:
    case Type.LargeUtf8:
      return "VARCHAR";
    case Type.Binary:
    case Type.LargeBinary:
    case Type.FixedSizeBinary:
      return "BLOB";
    case Type.Interval:
      return "INTERVAL";
    case Type.Dictionary:
      return typeName(type.dictionary);
    case Type.List:
    case Type.LargeList:
    case Type.FixedSizeList:
      return `${typeName(type.children[0].type)}[]`;
    case Type.Struct:
      return `STRUCT(${type.children.map((child) => `${child.name} ${typeName(child.type)}`).join(", ")})`;
    case Type.Map:
      return `MAP(${type.children[0].type.children.map((child) => typeName(child.type)).join(", ")})`;
    case Type.Null:
      return "NULL";
    default:
      return String(type);
  }
}

/** The value in a form that can be compared; nested values as arrays of parts. */
function valueAt(data, i) {
  if (data.typeId === Type.Null || !data.getValid(i)) return null;
  const type = data.type;
  switch (type.typeId) {
    case Type.Timestamp: // the vector's own accessor would round to milliseconds
      return BigInt(data.values[i]);
    case Type.Decimal:
      return decimalAt(data.values, i, type.bitWidth / 32);
    case Type.Dictionary:
      return data.dictionary.get(data.values[i]);
    case Type.List:
    case Type.LargeList: {
      const [from, to] = [Number(data.valueOffsets[i]), Number(data.valueOffsets[i + 1])];
      return range(from, to).map((n) => valueAt(data.children[0], n));
    }
    case Type.FixedSizeList:
      return range(i * type.listSize, (i + 1) * type.listSize).map((n) => valueAt(data.children[0], n));
    case Type.Struct:
      return data.children.map((child) => valueAt(child, i));
    case Type.Map: {
      const entries = data.children[0];
      return range(data.valueOffsets[i], data.valueOffsets[i + 1]).map((n) =>
        entries.children.map((child) => valueAt(child, n)),
      );
    }
    default:
      return plainAt(data, i);
  }
}

const vectors = new WeakMap();

function plainAt(data, i) {
  if (!vectors.has(data)) vectors.set(data, new Vector([data]));
  return vectors.get(data).get(i);
}

function range(from, to) {
  return Array.from({ length: Math.max(to - from, 0) }, (_, n) => from + n);
}

/** A two's complement integer of several 32-bit words, the lowest first. */
function decimalAt(words, i, width) {
  let number = 0n;
  for (let n = width - 1; n >= 0; n -= 1) number = (number << 32n) | BigInt(words[i * width + n]);
  return BigInt.asIntN(width * 32, number);
}

function textOf(type, value, digits = null) {
  if (value === null) return "null";
  switch (type.typeId) {
    case Type.Decimal:
      return decimalText(value, type.scale);
    case Type.Timestamp:
      return timestampText(value, type.unit, type.timezone);
    case Type.Date:
      return new Date(Number(value)).toISOString().slice(0, 10);
    case Type.Time:
      return timeText(BigInt(value), type.unit);
    case Type.Dictionary:
      return textOf(type.dictionary, value, digits);
    case Type.Float:
      return type.precision === Precision.DOUBLE ? double(value, digits) : double(shortest(value));
    case Type.Interval:
      return intervalText(value);
    case Type.Binary:
    case Type.LargeBinary:
    case Type.FixedSizeBinary:
      return [...value].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    case Type.List:
    case Type.LargeList:
    case Type.FixedSizeList:
      return `[${value.map((part) => textOf(type.children[0].type, part, digits)).join(", ")}]`;
    case Type.Struct:
      return `{${type.children.map((child, n) => `${child.name}: ${textOf(child.type, value[n], digits)}`).join(", ")}}`;
    case Type.Map: {
      const [key, held] = type.children[0].type.children;
      return `{${value.map(([k, v]) => `${textOf(key.type, k, digits)}: ${textOf(held.type, v, digits)}`).join(", ")}}`;
    }
    default:
      return String(value);
  }
}

function shortest(value) {
  const short = Number(value.toPrecision(7));
  return Math.fround(short) === value ? short : Number(value.toPrecision(9));
}

/** An integer with its last `scale` digits behind the point. */
export function decimalText(number, scale) {
  const digits = (number < 0n ? -number : number).toString().padStart(scale + 1, "0");
  const sign = number < 0n ? "-" : "";
  return scale > 0 ? `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}` : sign + digits;
}

/** Units a second, by Arrow's number of the unit. */
const PER_SECOND = [1n, 1000n, 1_000_000n, 1_000_000_000n];

function timestampText(value, unit, timezone) {
  const per = PER_SECOND[unit];
  const fraction = ((value % per) + per) % per;
  const date = new Date(Number((value - fraction) / per) * 1000);
  if (Number.isNaN(date.getTime())) return `${value} ${["s", "ms", "µs", "ns"][unit]} since 1970`;
  const whole = date.toISOString().replace("T", " ").replace(/\.\d+Z$/, "");
  return whole + fractionText(fraction, unit) + (timezone ? "Z" : "");
}

function timeText(value, unit) {
  const per = PER_SECOND[unit];
  return new Date(Number(value / per) * 1000).toISOString().slice(11, 19) + fractionText(value % per, unit);
}

function fractionText(fraction, unit) {
  return fraction === 0n ? "" : `.${fraction.toString().padStart(3 * unit, "0").replace(/0+$/, "")}`;
}

function intervalText(value) {
  const [months, days, low, high] = value;
  if (value.length < 4) return [...value].join(" ");
  const ns = BigInt.asIntN(64, (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0));
  const parts = [months && counted(months, "month"), days && counted(days, "day")];
  const sign = ns < 0n ? "-" : "";
  const size = ns < 0n ? -ns : ns;
  const hours = size / 3_600_000_000_000n;
  const rest = size % 3_600_000_000_000n;
  if (ns || !(months || days)) parts.push(`${sign}${String(hours).padStart(2, "0")}${timeText(rest, 3).slice(2)}`);
  return parts.filter(Boolean).join(" ");
}

/** A number for a chart: seconds for times; null if there is none. */
function numberOf(type, value) {
  if (value === null || value === undefined) return null;
  switch (type.typeId) {
    case Type.Decimal:
      return Number(value) / 10 ** type.scale;
    case Type.Timestamp:
      return Number(value) / Number(PER_SECOND[type.unit]);
    case Type.Date:
      return Number(value) / 1000;
    case Type.Int:
    case Type.Float:
      return Number(value);
    default:
      return null;
  }
}
