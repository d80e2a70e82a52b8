package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

type pgxClient struct {
	url        string
	connection *pgx.Conn
}

func (c *pgxClient) connect(url string) error {
	c.close()
	connection, err := pgx.Connect(context.Background(), url)
	c.url, c.connection = url, connection
	return err
}

func (c *pgxClient) close() {
	if c.connection != nil {
		c.connection.Close(context.Background())
	}
}

func (c *pgxClient) ask(ctx context.Context, sql string, parameters ...any) ([]row, error) {
	rows, err := c.connection.Query(ctx, sql, parameters...)
	if err == nil {
		var found []row
		if found, err = all(rows); err == nil {
			return found, nil
		}
	}
	if c.connection.IsClosed() { // pgx closes a connection whose question has timed out
		if failed := c.connect(c.url); failed != nil {
			return nil, failed
		}
	}
	return nil, err
}

func (c *pgxClient) prepared(ctx context.Context, sql string, values []any) ([]row, error) {
	if _, err := c.connection.Prepare(ctx, "prepared", sql); err != nil {
		return nil, err
	}
	var found []row
	for _, value := range values {
		rows, err := c.ask(ctx, "prepared", value)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	return found, c.connection.Deallocate(ctx, "prepared")
}

func (c *pgxClient) batch(ctx context.Context, sql string, values []any) ([]row, error) {
	var batch pgx.Batch
	for _, value := range values {
		batch.Queue(sql, value)
	}
	results := c.connection.SendBatch(ctx, &batch)
	var found []row
	for range values {
		rows, err := results.Query()
		if err != nil {
			results.Close()
			return nil, err
		}
		more, err := all(rows)
		if err != nil {
			results.Close()
			return nil, err
		}
		found = append(found, more...)
	}
	return found, results.Close()
}

func (c *pgxClient) array(type_ string, parts []*string) any {
	if type_ == "text[]" {
		return parts
	}
	var numbers []*int32
	for _, part := range parts {
		if part == nil {
			numbers = append(numbers, nil)
			continue
		}
		number, _ := strconv.ParseInt(*part, 10, 32)
		small := int32(number)
		numbers = append(numbers, &small)
	}
	return numbers
}

func all(rows pgx.Rows) ([]row, error) {
	defer rows.Close()
	found := []row{}
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, err
		}
		for place, value := range values {
			values[place] = plain(value)
		}
		found = append(found, values)
	}
	return found, rows.Err()
}

func plain(value any) any {
	switch value := value.(type) {
	case nil, bool, string:
		return value
	case []byte:
		return hex.EncodeToString(value)
	case int16:
		return strconv.Itoa(int(value))
	case int32:
		return strconv.Itoa(int(value))
	case int64:
		return strconv.FormatInt(value, 10)
	case float32:
		return strconv.FormatFloat(float64(value), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	case time.Time:
		return value.Format("2006-01-02T15:04:05.000000Z07:00")
	case pgtype.Time:
		return time.UnixMicro(value.Microseconds).UTC().Format("15:04:05.000000")
	case pgtype.Interval:
		return []any{value.Months, value.Days, value.Microseconds}
	case pgtype.Numeric:
		text, _ := value.Value()
		return text
	case []any:
		for place, part := range value {
			value[place] = plain(part)
		}
		return value
	}
	text, _ := json.Marshal(value)
	return string(text)
}
