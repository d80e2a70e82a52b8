package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/lib/pq"
)

type pqClient struct {
	pool *sql.DB
}

func (c *pqClient) connect(url string) error {
	if c.pool != nil {
		c.pool.Close()
	}
	pool, err := sql.Open("postgres", url)
	if err != nil {
		return err
	}
	c.pool = pool
	return pool.Ping()
}

func (c *pqClient) ask(ctx context.Context, query string, parameters ...any) ([]row, error) {
	rows, err := c.pool.QueryContext(ctx, query, parameters...)
	if err != nil {
		return nil, err
	}
	return scanned(rows)
}

func (c *pqClient) prepared(ctx context.Context, query string, values []any) ([]row, error) {
	statement, err := c.pool.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	return asked(values, func(value any) (*sql.Rows, error) {
		return statement.QueryContext(ctx, value)
	})
}

// batch asks in one transaction, because lib/pq has no batches.
func (c *pqClient) batch(ctx context.Context, query string, values []any) ([]row, error) {
	transaction, err := c.pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer transaction.Rollback()
	found, err := asked(values, func(value any) (*sql.Rows, error) {
		return transaction.QueryContext(ctx, query, value)
	})
	if err != nil {
		return nil, err
	}
	return found, transaction.Commit()
}

// asked asks once for each value, and returns the rows of all answers.
func asked(values []any, ask func(value any) (*sql.Rows, error)) ([]row, error) {
	var found []row
	for _, value := range values {
		rows, err := ask(value)
		if err != nil {
			return nil, err
		}
		more, err := scanned(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

func (c *pqClient) array(_ string, parts []*string) any {
	return pq.Array(parts)
}

func scanned(rows *sql.Rows) ([]row, error) {
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	found := []row{}
	for rows.Next() {
		values, places := make(row, len(columns)), make([]any, len(columns))
		for place := range columns {
			places[place] = &values[place]
		}
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		for place, column := range columns {
			if values[place], err = read(values[place], column.DatabaseTypeName()); err != nil {
				return nil, err
			}
		}
		found = append(found, values)
	}
	return found, rows.Err()
}

// read makes of a value what the other clients make of it. Where lib/pq has no type for a value, it
// has the text that the server has sent.
func read(value any, name string) (any, error) {
	switch value := value.(type) {
	case time.Time:
		if name == "TIME" {
			return value.Format("15:04:05.000000"), nil
		}
		return plain(value), nil
	case []byte:
		switch name {
		case "BYTEA":
			return hex.EncodeToString(value), nil
		case "INTERVAL":
			var read pgtype.Interval
			err := read.Scan(string(value))
			return plain(read), err
		}
		if strings.HasPrefix(name, "_") {
			var parts []sql.NullString
			if err := (pq.GenericArray{A: &parts}).Scan(value); err != nil {
				return nil, err
			}
			read := make([]any, len(parts))
			for place, part := range parts {
				if part.Valid && name == "_BOOL" {
					read[place] = part.String == "t"
				} else if part.Valid {
					read[place] = part.String
				}
			}
			return read, nil
		}
		return string(value), nil
	}
	return plain(value), nil
}
