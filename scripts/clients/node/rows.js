// node-postgres: what Sequelize, TypeORM, knex and drizzle send with it, and values of types.
//
// Usage: node rows.js HOST PORT DATABASE
//
// Prints `DIFFERS`, what, what was found and what PostgreSQL 15 gives, with tabs between, for each that is not as there; last, how many are.
"use strict";
process.env.TZ = "Europe/Berlin";
const { isDeepStrictEqual } = require("node:util");
const { Client } = require("pg");

let passed = 0;
async function hold(what, expected, asked) {
  let found;
  try {
    found = await asked();
  } catch (error) {
    found = `ERROR ${error.code ?? error}`;
  }
  if (isDeepStrictEqual(found, expected)) passed += 1;
  else console.log(["DIFFERS", what, JSON.stringify(found), JSON.stringify(expected)].join("\t"));
}

/** The rows of a statement as arrays: by the simple protocol if there are no values, else by the extended one. */
const rows = async (client, text, values, more) => (await client.query({ text, values, rowMode: "array", ...more })).rows;

async function both(client, text, expected, values) {
  if (!values) await hold(text, expected, () => rows(client, text));
  await hold(`${text} [extended]`, expected, () => rows(client, text, values ?? [], { queryMode: "extended" }));
  await hold(`${text} [named]`, expected, () => rows(client, text, values ?? [], { name: text.slice(0, 60) }));
}

async function sequelize(client) {
  await client.query("CREATE TABLE node_moments (z TIMESTAMPTZ); INSERT INTO node_moments VALUES ('2020-06-01 12:00:00+00')");
  for (const [setting, shown, text] of [
    ["SET client_min_messages TO warning;SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE", "<+00>-00", "2020-06-01 12:00:00+00"],
    ["SET TIME ZONE INTERVAL '+05:30' HOUR TO MINUTE", "<+05:30>-05:30", "2020-06-01 17:30:00+05:30"],
    ["SET SESSION TIMEZONE TO 'America/New_York'", "America/New_York", "2020-06-01 08:00:00-04"],
  ]) {
    await hold(setting, true, async () => Boolean(await client.query(setting)));
    await both(client, "SHOW TIMEZONE", [[shown]]);
    await both(client, "SELECT z::text, z FROM node_moments", [[text, new Date("2020-06-01T12:00:00Z")]]);
  }
  await client.query("SET TIME ZONE 'UTC'; DROP TABLE node_moments");
}

async function typeorm(client) {
  await client.query("CREATE TABLE airports (carrier TEXT NOT NULL, name VARCHAR(20))");
  await both(client, "SELECT * FROM current_schema()", [["public"]]);
  await both(client, "SELECT * FROM upper($1) AS result", [["ABC"]], ["abc"]);
  await hold("the name of current_schema()'s column", ["current_schema"], async () => (await client.query("SELECT * FROM current_schema()")).fields.map((field) => field.name));
  await both(client, "SELECT ('air'||'ports')::regclass::text AS r", [["airports"]]);
  const columns = `SELECT columns.*, pg_catalog.col_description(('"' || table_catalog || '"."' || table_schema || '"."' || table_name || '"')::regclass::oid, ordinal_position) AS description,
    ('"' || "udt_schema" || '"."' || "udt_name" || '"')::"regtype"::text AS "regtype", pg_catalog.format_type("col_attr"."atttypid", "col_attr"."atttypmod") AS "format_type"
    FROM "information_schema"."columns" LEFT JOIN "pg_catalog"."pg_attribute" AS "col_attr" ON "col_attr"."attname" = "columns"."column_name" AND "col_attr"."attrelid" = (
      SELECT "cls"."oid" FROM "pg_catalog"."pg_class" AS "cls" LEFT JOIN "pg_catalog"."pg_namespace" AS "ns" ON "ns"."oid" = "cls"."relnamespace"
      WHERE "cls"."relname" = "columns"."table_name" AND "ns"."nspname" = "columns"."table_schema")
    WHERE ("table_schema" = 'public' AND "table_name" = 'airports')`;
  await hold("TypeORM's columns", [["carrier", "NO", "text", "text"], ["name", "YES", "character varying", "character varying(20)"]], async () =>
    (await client.query(columns)).rows.map((row) => [row.column_name, row.is_nullable, row.regtype, row.format_type]).sort());
  await hold("CREATE TABLE of TypeORM", "CREATE", async () =>
    (await client.query('CREATE TABLE "node_posts" ("id" uuid NOT NULL DEFAULT gen_random_uuid(), "title" character varying NOT NULL, "at" TIMESTAMP NOT NULL DEFAULT now(), CONSTRAINT "pk" PRIMARY KEY ("id"))')).command);
  const insert = 'INSERT INTO "node_posts"("id", "title", "at") VALUES (DEFAULT, $1, DEFAULT) RETURNING "title", length("id"::text) AS n';
  await hold(insert, [["t", 36]], () => rows(client, insert, ["t"]));
  await client.query("DROP TABLE node_posts; DROP TABLE airports");
}

/** A Date is sent as a text with the process' offset, for whatever the column is. */
async function dates(client) {
  await client.query("CREATE TABLE node_days (d DATE, t TIMESTAMP, z TIMESTAMPTZ)");
  const at = new Date(2020, 5, 1, 10, 11, 12, 345);
  await hold("a Date for DATE, TIMESTAMP, TIMESTAMPTZ", 1, async () => (await client.query("INSERT INTO node_days VALUES ($1, $2, $3)", [at, at, at])).rowCount);
  await both(client, "SELECT d::text, t::text, (z AT TIME ZONE 'UTC')::text FROM node_days", [["2020-06-01", "2020-06-01 10:11:12.345", "2020-06-01 08:11:12.345"]]);
  await both(client, "SELECT count(*)::int FROM node_days WHERE d = $1 AND t = $2 AND z = $3", [[1]], [at, at, at]);
  await both(client, "SELECT $1::date::text, $2::timestamp::text", [["2020-06-01", "2020-06-01 10:11:12.345"]], [at, at]);
  await hold("what comes back", [[new Date(2020, 5, 1), at, at]], () => rows(client, "SELECT d, t, z FROM node_days"));
  await client.query("DROP TABLE node_days");
}

async function types(client) {
  const columns = "u UUID, j JSON, b JSONB, h TIME, i INTERVAL, p NUMERIC, c CHAR(5), w NUMERIC(20, 0), x NUMERIC(38, 10), l CHAR";
  await client.query(`CREATE TABLE node_types (n INT, ${columns})`);
  const nested = { b: 1, "ü": ["😀", null, { "": "\u2028\"\\" }] };
  const row = ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", nested, nested, "24:00:00", "-1 years -2 mons +3 days -04:05:06.789", "-12345678901234567890.125", "ab", "18446744073709551615", "-9999999999999999999999999999.9999999999", "x"];
  const back = [...row.slice(0, 4), { years: -1, months: -2, days: 3, hours: -4, minutes: -5, seconds: -6, milliseconds: -789 }, row[5], "ab   ", ...row.slice(7)];
  const texts = [row[0], JSON.stringify(nested), '{"b": 1, "ü": ["😀", null, {"": "\u2028\\"\\\\"}]}', ...row.slice(3, 6), "ab   ", ...row.slice(7)];
  const places = row.map((_, at) => `$${at + 2}`).join(", ");
  await hold("types, INSERT", 1, async () => (await client.query(`INSERT INTO node_types VALUES ($1, ${places})`, [1, ...row])).rowCount);
  await hold("types, NULLs", 1, async () => (await client.query(`INSERT INTO node_types VALUES ($1, ${places})`, [2, ...row.map(() => null)])).rowCount);
  const whole = "SELECT u, j, b, h, i, p, c, w, x, l FROM node_types WHERE n = $1";
  const plain = (found) => found.map((values) => values.map((value) => (value?.constructor?.name === "PostgresInterval" ? { ...value } : value)));
  await hold("types, a row", [back], async () => plain(await rows(client, whole, [1])));
  await hold("types, a row, simple", [back], async () => plain(await rows(client, whole.replace("$1", "1"))));
  await hold("types, a row of NULLs", [row.map(() => null)], () => rows(client, whole, [2]));
  const asIs = { getTypeParser: () => (value) => value };
  await hold("types, texts of the protocol", [texts], () => rows(client, whole, [1], { types: asIs }));
  await hold("types, OIDs", [2950, 114, 3802, 1083, 1186, 1700, 1042, 1700, 1700, 1042], async () => (await client.query(whole, [1])).fields.map((field) => field.dataTypeID));
  await hold("types, modifiers", [-1, -1, -1, -1, -1, -1, 9, 1310724, 2490382, 5], async () => (await client.query(whole, [1])).fields.map((field) => field.dataTypeModifier));
  for (const [column, value, cast] of [["u", row[0], "uuid"], ["b", nested, "jsonb"], ["h", "24:00", "time"], ["i", row[4], "interval"], ["p", `${row[5]}00`, "numeric"], ["c", "ab", "bpchar"], ["w", row[7], "numeric"], ["x", row[8], "numeric"]]) {
    await both(client, `SELECT n FROM node_types WHERE ${column} = $1`, [[1]], [value]);
    await both(client, `SELECT n FROM node_types WHERE ${column} = $1::${cast}`, [[1]], [value]);
    if (column !== "b") await both(client, `SELECT n FROM node_types WHERE ${column} = ANY($1)`, [[1]], [[value, value]]);
    if (column !== "b") await both(client, `SELECT n FROM node_types WHERE ${column} = ANY($1::${cast}[])`, [[1]], [[value]]);
  }
  await both(client, "SELECT b->'ü'->>0, b->$1, b @> $2, j->>'b' FROM node_types WHERE n = 1", [["😀", 1, true, "1"]], ["b", { b: 1 }]);
  await hold("types, a bad UUID", "ERROR 22P02", () => rows(client, "SELECT n FROM node_types WHERE u = $1", ["x"]));
  await hold("types, bad JSON", "ERROR 22P02", () => rows(client, "SELECT $1::jsonb", ["{"]));
  await client.query("DROP TABLE node_types");
}

async function main() {
  const [host, port, database] = process.argv.slice(2);
  const client = new Client({ host, port: Number(port), user: "alluvia", database });
  await client.connect();
  for (const part of [sequelize, typeorm, dates, types]) await part(client);
  await client.end();
  console.log(`node-postgres ${require("pg/package.json").version}, ${passed} passed`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
