// node-postgres: statements, types, arrays, a pool, savepoints, notices.
//
// Usage: node client.js PORT
"use strict";
const assert = require("node:assert/strict");
const { Client, Pool } = require("pg");

let passed = 0;
function check(found, expected, what) {
  assert.deepEqual(found, expected, what);
  passed += 1;
}

async function state(work) {
  try {
    await work();
    return "taken";
  } catch (error) {
    return error.code;
  }
}

async function main() {
  const target = { host: "127.0.0.1", port: Number(process.argv[2]), user: "alluvia", database: "alluvia" };
  const client = new Client(target);
  await client.connect();
  await client.query("CREATE TABLE n (a INT, b BIGINT, c TEXT, d DOUBLE PRECISION, e DECIMAL(12, 2), f BOOLEAN, h TIMESTAMPTZ, j BYTEA)");
  const at = new Date("2026-11-21T10:11:12.345Z");
  const row = [1, "1099511627776", "it's ä\n\\", 0.5, "12.34", true, at, Buffer.from([0, 255])];
  const insert = "INSERT INTO n VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
  check((await client.query(insert, row)).rowCount, 1, "INSERT");
  await client.query(insert, [2, null, null, null, null, null, null, null]);
  for (const name of [undefined, "named", "named"]) {
    const found = await client.query({ name, text: "SELECT * FROM n WHERE a = $1", values: [1], rowMode: "array" });
    check(found.rows, [row], "a row");
    check(found.fields.map((field) => field.dataTypeID), [23, 20, 25, 701, 1700, 16, 1184, 17], "types");
  }
  // Arrays go as texts whose type is left to the statement.
  for (const [condition, list] of [
    ["a = ANY($1)", [1, 7]], ["a = ANY($1::int[])", [1, 7]], ["b = ANY($1::bigint[])", ["1099511627776"]],
    ["c = ANY($1)", ["it's ä\n\\", 'x"y']], ["d = ANY($1::float8[])", [0.5]], ["a <> ALL($1)", [2]], ["e = ANY($1)", ["12.340"]],
  ]) {
    const found = await client.query(`SELECT count(*)::int AS count FROM n WHERE ${condition}`, [list]);
    check(found.rows, [{ count: 1 }], condition);
  }
  check((await client.query("SELECT a FROM n WHERE a = ANY($1)", [[]])).rows, [], "ANY of nothing");
  const lists = await client.query("SELECT array_agg(a ORDER BY a) AS l, array_agg(c ORDER BY a) AS m, $1::text[] AS t FROM n", [['a,"b"', null]]);
  check(lists.rows, [{ l: [1, 2], m: ["it's ä\n\\", null], t: ['a,"b"', null] }], "arrays");
  check(await state(() => client.query("SELECT nothing FROM n")), "42703", "an error");
  check((await state(() => client.query("SELECT a FROM n WHERE a = ANY($1)", ["1,2"]))).slice(0, 2), "22", "what is no array");

  const notices = [];
  client.on("notice", (notice) => notices.push(notice.message));
  await client.query("SET report = 'notice'");
  await client.query("SELECT count(*) FROM n WHERE c = 'x'");
  await client.query("RESET report");
  check(notices.some((notice) => notice.includes("stage")), true, "what a query used");

  await client.query("BEGIN");
  await client.query("INSERT INTO n (a) VALUES (10)");
  await client.query("SAVEPOINT s");
  check((await state(() => client.query("INSERT INTO n (a) VALUES ($1)", ["x"]))).slice(0, 2), "22", "an error in a savepoint");
  check(await state(() => client.query("SELECT 1")), "25P02", "a transaction that has failed");
  await client.query("ROLLBACK TO SAVEPOINT s");
  await client.query("INSERT INTO n (a) VALUES (11)");
  await client.query("RELEASE SAVEPOINT s");
  await client.query("COMMIT");
  check((await client.query("SELECT a FROM n WHERE a >= 10 ORDER BY a")).rows, [{ a: 10 }, { a: 11 }], "savepoints");
  const several = await client.query("SELECT 1 AS a; SELECT 'x' AS b");
  check(several.map((result) => result.rows), [[{ a: "1" }], [{ b: "x" }]], "several statements");

  const pool = new Pool({ ...target, max: 4 });
  const counts = await Promise.all(Array.from({ length: 20 }, (_, value) => pool.query("SELECT $1::int AS v", [value])));
  check(counts.map((result) => result.rows[0].v), Array.from({ length: 20 }, (_, value) => value), "a pool");
  await pool.end();
  await client.query("DROP TABLE n");
  await client.end();
  console.log(`node-postgres ${require("pg/package.json").version}, ${passed} passed`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
