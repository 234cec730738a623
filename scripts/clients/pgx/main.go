// pgx: statements in each of its ways to run them, arrays, batches, COPY, savepoints, cancelling.
//
// Usage: go run . PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var passed = 0

func check(found, expected any, what string) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%s: %#v, and %#v is expected", what, found, expected))
	}
	passed++
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func state(err error) string {
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code
	}
	return fmt.Sprint(err)
}

// A row of all types that tables have.
type row struct {
	A int32
	B int64
	C *string
	D float64
	F bool
	G time.Time
	H time.Time
	I time.Time
	J []byte
}

// The statements that one of its modes runs.
func values(ctx context.Context, conn *pgx.Conn, mode pgx.QueryExecMode) {
	what := mode.String()
	text := "it's ä\n\\"
	one := row{1, 1 << 40, &text, 0.5, true, time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 11, 21, 10, 11, 12, 345678000, time.UTC), time.Date(2026, 11, 21, 10, 11, 12, 0, time.UTC), []byte{0, 255}}
	must(conn.Exec(ctx, "CREATE TABLE g (a INT, b BIGINT, c TEXT, d DOUBLE PRECISION, f BOOLEAN, g DATE, h TIMESTAMP, i TIMESTAMPTZ, j BYTEA)", mode))
	must(conn.Exec(ctx, "INSERT INTO g VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)", mode, one.A, one.B, one.C, one.D, one.F, one.G, one.H, one.I, one.J))
	must(conn.Exec(ctx, "INSERT INTO g (a, b, c) VALUES (2, 2, $1)", mode, nil))
	found := must(pgx.CollectRows(must(conn.Query(ctx, "SELECT * FROM g WHERE a = $1", mode, int32(1))), pgx.RowToStructByPos[row]))
	found[0].I = found[0].I.UTC()
	check(found, []row{one}, what+", a row")
	var missing *string
	must(0, conn.QueryRow(ctx, "SELECT c FROM g WHERE c IS NULL", mode).Scan(&missing))
	check(missing == nil, true, what+", NULL")
	for _, any := range []struct {
		sql  string
		list any
	}{
		{"a = ANY($1)", []int32{1, 7}}, {"a = ANY($1::int[])", []int32{1, 7}}, {"b = ANY($1)", []int64{1 << 40}},
		{"c = ANY($1)", []string{"x", text}}, {"d = ANY($1::float8[])", []float64{0.5, 1}}, {"a <> ALL($1)", []int32{2}},
	} {
		var count int64
		must(0, conn.QueryRow(ctx, "SELECT count(*) FROM g WHERE "+any.sql, mode, any.list).Scan(&count))
		check(count, int64(1), what+", "+any.sql)
	}
	var ints []int32
	var texts []*string
	must(0, conn.QueryRow(ctx, "SELECT array_agg(a ORDER BY a), array_agg(c ORDER BY a) FROM g", mode).Scan(&ints, &texts))
	check(ints, []int32{1, 2}, what+", an array")
	check(texts, []*string{&text, nil}, what+", an array with NULL")
	_, err := conn.Exec(ctx, "SELECT nothing FROM g", mode)
	check(state(err), "42703", what+", an error")
	must(conn.Exec(ctx, "DROP TABLE g", mode))
}

func transactions(ctx context.Context, conn *pgx.Conn) {
	must(conn.Exec(ctx, "CREATE TABLE t (a INT, b TEXT)"))
	batch := &pgx.Batch{}
	for at := range 200 {
		batch.Queue("INSERT INTO t VALUES ($1, $2)", at, fmt.Sprint("row ", at))
	}
	batch.Queue("SELECT 1")
	must(0, conn.SendBatch(ctx, batch).Close())
	copied := must(conn.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"a", "b"}, pgx.CopyFromSlice(1000, func(at int) ([]any, error) {
		return []any{int32(1000 + at), "copied"}, nil
	})))
	check(copied, int64(1000), "COPY in")
	outer := must(conn.Begin(ctx))
	must(outer.Exec(ctx, "INSERT INTO t VALUES (5000, 'outer')"))
	// A transaction within one is a savepoint.
	failed := must(outer.Begin(ctx))
	must(failed.Exec(ctx, "INSERT INTO t VALUES (5001, 'inner')"))
	_, err := failed.Exec(ctx, "INSERT INTO t VALUES ('x')")
	check(state(err)[:2], "22", "an error in a savepoint")
	must(0, failed.Rollback(ctx))
	kept := must(outer.Begin(ctx))
	must(kept.Exec(ctx, "INSERT INTO t VALUES (5002, 'kept')"))
	must(0, kept.Commit(ctx))
	must(0, outer.Commit(ctx))
	rows := must(pgx.CollectRows(must(conn.Query(ctx, "SELECT a FROM t WHERE a >= 5000 ORDER BY a")), pgx.RowTo[int32]))
	check(rows, []int32{5000, 5002}, "savepoints")
	var count int64
	must(0, conn.QueryRow(ctx, "SELECT count(*) FROM t").Scan(&count))
	check(count, int64(1202), "rows of a batch, a COPY and a transaction")
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = conn.Exec(short, "SELECT count(*) FROM generate_series(1, 1000000000000)")
	check(err != nil, true, "a statement that takes too long")
}

func main() {
	ctx := context.Background()
	target := fmt.Sprintf("postgres://alluvia@127.0.0.1:%s/alluvia", os.Args[1])
	conn := must(pgx.Connect(ctx, target))
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for _, mode := range modes {
		values(ctx, conn, mode)
	}
	transactions(ctx, conn)
	pool := must(pgxpool.New(ctx, target))
	must(pool.Exec(ctx, "DROP TABLE t"))
	pool.Close()
	fmt.Printf("pgx, %d passed\n", passed)
}
