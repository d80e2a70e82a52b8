// DuckDB's SQL as far as it is asked here: one SELECT, without the words of statements that write.

import { SQLDialect } from "@codemirror/lang-sql";

export const dialect = SQLDialect.define({
  keywords: `all and anti any array as asc asof at between by case cast collate columns cross cube current desc
    describe distinct else end except exclude exists extract false fetch filter first following for from full
    group grouping having ilike in inner intersect interval into is isnull join last lateral left like limit
    named natural not notnull null nulls offset on or order ordinality outer over partition pivot positional
    preceding qualify range recursive replace respect right rollup row rows sample select semi sets similar
    show some summarize table tablesample then ties to true try_cast unbounded union unnest unpivot using
    values when where window with within without zone`.replace(/\s+/g, " "),
  types: `bigint bit blob bool boolean bytea char date datetime decimal double enum float float4 float8 hugeint
    int int2 int4 int8 integer json list map numeric real smallint string struct text time timestamp timestamptz
    tinyint ubigint uhugeint uinteger usmallint utinyint uuid varchar`.replace(/\s+/g, " "),
  builtin: "",
  hashComments: false,
  doubleQuotedStrings: false,
  doubleDollarQuotedStrings: true,
  spaceAfterDashes: false,
  operatorChars: "+-*/%<>!=&|~^@:",
  specialVar: "$",
  identifierQuotes: '"',
});
