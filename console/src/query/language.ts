// The colours of InfluxQL and SQL.

import { HighlightStyle, StreamLanguage, syntaxHighlighting, type StreamParser } from "@codemirror/language";
import { tags } from "@lezer/highlight";
import type { Language } from "../data/request";
import { INFLUXQL_FUNCTIONS, INFLUXQL_KEYWORDS, SQL_FUNCTIONS, SQL_KEYWORDS } from "./keywords";

function parser(keywords: string[], functions: string[], comment: RegExp, isInflux: boolean): StreamParser<{ inComment: boolean }> {
  const known = new Set(keywords.map((word) => word.toLowerCase()));
  const called = new Set(functions);
  return {
    startState: () => ({ inComment: false }),
    token(stream, state) {
      if (state.inComment) {
        if (stream.match(/.*?\*\//)) state.inComment = false;
        else stream.skipToEnd();
        return "comment";
      }
      if (stream.eatSpace()) return null;
      if (stream.match(comment)) return "comment";
      if (stream.match("/*")) {
        state.inComment = true;
        return "comment";
      }
      if (stream.match(/'(?:[^'\\]|\\.|'')*'?/)) return "string";
      if (stream.match(/"(?:[^"\\]|\\.|"")*"?/)) return "propertyName";
      if (stream.match(/\$[A-Za-z]+/)) return "macroName";
      if (stream.match(/\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:ns|us|u|µ|ms|s|m|h|d|w)?\b/i)) return "number";
      if (isInflux && stream.match(/[=!]~/)) {
        stream.eatSpace();
        return "operator";
      }
      if (isInflux && stream.match(/\/(?:[^/\\\n]|\\.)+\//)) return "regexp";
      const word = stream.match(/[A-Za-z_]\w*/) as RegExpMatchArray | null;
      if (word !== null) {
        const lower = word[0].toLowerCase();
        if (called.has(lower) && stream.match(/\s*\(/, false)) return "function";
        return known.has(lower) ? "keyword" : "variableName";
      }
      stream.next();
      return "operator";
    },
    tokenTable: { function: tags.function(tags.variableName), macroName: tags.macroName },
  };
}

const PARSERS: Record<Language, StreamParser<{ inComment: boolean }>> = {
  influxql: parser(INFLUXQL_KEYWORDS, INFLUXQL_FUNCTIONS, /--.*/, true),
  sql: parser(SQL_KEYWORDS, SQL_FUNCTIONS, /--.*/, false),
};

export const languageOf = (language: Language) => StreamLanguage.define(PARSERS[language]);

export const highlighting = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "var(--syntax-keyword)", fontWeight: "600" },
    { tag: tags.string, color: "var(--syntax-string)" },
    { tag: tags.regexp, color: "var(--syntax-string)" },
    { tag: tags.number, color: "var(--syntax-number)" },
    { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
    { tag: tags.function(tags.variableName), color: "var(--syntax-function)" },
    { tag: tags.macroName, color: "var(--syntax-variable)", fontWeight: "600" },
    { tag: tags.propertyName, color: "var(--ink)" },
  ]),
);
