// Asks a server by node-postgres. tests/support/sql_clients.py has the requests.
"use strict";

const readline = require("node:readline");
const pg = require("pg");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");

const NULL = "\\N";

let client, queryMode;

async function connect(url, mode) {
  if (client) await client.end();
  client = undefined;
  queryMode = mode === "text" ? undefined : "extended";
  const made = new pg.Client(url);
  await made.connect();
  client = made;
  return [];
}

const READERS = {
  bool: (text) => text === "true",
  int4: Number,
  float8: Number,
  bytea: (text) => Buffer.from(text, "hex"),
  date: (text) => new Date(text),
  timestamp: (text) => new Date(text + "Z"),
  timestamptz: (text) => new Date(text),
  "int4[]": (text) => text.split(",").map((each) => (each === NULL ? null : Number(each))),
  "text[]": (text) => text.split(",").map((each) => (each === NULL ? null : each)),
};

function parameter(type, text) {
  return text === NULL ? null : (READERS[type] ?? String)(text);
}

async function ask(sql, ...given) {
  const values = [];
  for (let place = 0; place + 1 < given.length; place += 2) {
    values.push(parameter(given[place], given[place + 1]));
  }
  const query = { text: sql, values, rowMode: "array", queryMode };
  return plainRows((await client.query(query)).rows);
}

async function prepared(sql, type, ...given) {
  const found = [];
  for (const text of given) {
    const values = [parameter(type, text)];
    const query = { name: `prepared ${sql.length}`, text: sql, values, rowMode: "array" };
    found.push(...plainRows((await client.query(query)).rows));
  }
  return found;
}

// By a cursor, then once more as a stream: both ask for a number of rows at a time.
async function portions(sql, size) {
  const found = [];
  const cursor = client.query(new Cursor(sql, [], { rowMode: "array" }));
  for (let rows; (rows = await cursor.read(Number(size))).length; ) found.push(...rows);
  await cursor.close();
  const streamed = [];
  const options = { rowMode: "array", batchSize: Number(size) };
  for await (const row of client.query(new QueryStream(sql, [], options))) streamed.push(row);
  if (JSON.stringify(found) !== JSON.stringify(streamed)) {
    throw new Error("a cursor and a stream have found different rows");
  }
  return plainRows(found);
}

async function batch(sql, type, ...given) {
  const asked = given.map((text) => ask(sql, type, text));
  return (await Promise.all(asked)).flat();
}

async function slow(sql, milliseconds) {
  await client.query(`SET statement_timeout = ${milliseconds}`);
  try {
    return plainRows((await client.query({ text: sql, rowMode: "array" })).rows);
  } finally {
    await client.query("RESET statement_timeout");
  }
}

function plainRows(rows) {
  return rows.map((row) => row.map(plain));
}

function plain(value) {
  if (value === null || typeof value === "boolean") return value;
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Date) return value.toISOString();
  if (Buffer.isBuffer(value)) return value.toString("hex");
  if (value.constructor.name === "PostgresInterval") {
    const { years = 0, months = 0, days = 0, hours = 0, minutes = 0, seconds = 0 } = value;
    const { milliseconds = 0 } = value;
    const us = ((hours * 60 + minutes) * 60 + seconds) * 1e6 + milliseconds * 1e3;
    return [years * 12 + months, days, Math.round(us)];
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

async function main() {
  const requests = { connect, ask, prepared, batch, portions, slow };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...rest] = line.split("\t");
    let answer;
    try {
      answer = { rows: await requests[name](...rest) };
    } catch ({ code, message, position }) {
      answer = { error: { code, message, position: Number(position ?? 0) } };
    }
    console.log(JSON.stringify(answer));
  }
  if (client) await client.end();
}

main();
