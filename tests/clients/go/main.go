// Asks a server by pgx or by lib/pq. tests/support/sql_clients.py has the requests.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

const null = `\N`

type row = []any

// client is what both libraries are asked for.
type client interface {
	connect(url string) error
	ask(ctx context.Context, sql string, parameters ...any) ([]row, error)
	prepared(ctx context.Context, sql string, values []any) ([]row, error)
	batch(ctx context.Context, sql string, values []any) ([]row, error)
	array(type_ string, parts []*string) any
}

func main() {
	var asked client = &pgxClient{}
	if os.Args[1] == "pq" {
		asked = &pqClient{}
	}
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		request := strings.Split(lines.Text(), "\t")
		rows, err := answer(asked, request[0], request[1:])
		if err != nil {
			out.Encode(map[string]any{"error": said(err)})
			continue
		}
		out.Encode(map[string]any{"rows": rows})
	}
}

func answer(asked client, name string, rest []string) ([]row, error) {
	ctx := context.Background()
	switch name {
	case "connect":
		return []row{}, asked.connect(rest[0])
	case "ask":
		var parameters []any
		for place := 1; place+1 < len(rest); place += 2 {
			parameters = append(parameters, parameter(asked, rest[place], rest[place+1]))
		}
		return asked.ask(ctx, rest[0], parameters...)
	case "portions": // both libraries read rows as they come, and ask for all of them
		return asked.ask(ctx, rest[0])
	case "prepared", "batch":
		var values []any
		for _, text := range rest[2:] {
			values = append(values, parameter(asked, rest[1], text))
		}
		if name == "batch" {
			return asked.batch(ctx, rest[0], values)
		}
		return asked.prepared(ctx, rest[0], values)
	case "slow":
		ms, _ := strconv.Atoi(rest[1])
		limited, cancel := context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
		return asked.ask(limited, rest[0])
	}
	return nil, fmt.Errorf("%s is no request", name)
}

func parameter(asked client, type_ string, text string) any {
	if text == null {
		return nil
	}
	switch type_ {
	case "bool":
		return text == "true"
	case "int4":
		number, _ := strconv.ParseInt(text, 10, 32)
		return int32(number)
	case "int8":
		number, _ := strconv.ParseInt(text, 10, 64)
		return number
	case "float8":
		number, _ := strconv.ParseFloat(text, 64)
		return number
	case "bytea":
		bytes, _ := hex.DecodeString(text)
		return bytes
	case "date":
		moment, _ := time.Parse(time.DateOnly, text)
		return moment
	case "timestamp":
		moment, _ := time.Parse("2006-01-02T15:04:05.999999", text)
		return moment
	case "timestamptz":
		moment, _ := time.Parse(time.RFC3339Nano, text)
		return moment
	case "int4[]", "text[]":
		var parts []*string
		for _, part := range strings.Split(text, ",") {
			if part == null {
				parts = append(parts, nil)
			} else {
				parts = append(parts, &part)
			}
		}
		return asked.array(type_, parts)
	}
	return text
}

func said(err error) map[string]any {
	found := map[string]any{"message": err.Error()}
	var ofPgx *pgconn.PgError
	var ofPq *pq.Error
	if errors.As(err, &ofPgx) {
		found["code"], found["position"] = ofPgx.Code, ofPgx.Position
	} else if errors.As(err, &ofPq) {
		found["code"] = string(ofPq.Code)
		found["position"], _ = strconv.Atoi(ofPq.Position)
	}
	return found
}
