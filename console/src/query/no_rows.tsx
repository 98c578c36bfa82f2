// What is said of an answer without rows: mostly the range has none, and another has.

import { useState } from "preact/hooks";
import type { Language } from "../data/request";
import { sourceOf } from "./from_clause";
import { newestOf, reachOfQuery } from "./range_with_data";
import { resolve, usesVariables, type TimeRange } from "./variables";

export interface Asked {
  language: Language;
  text: string;
  database: string;
  range: TimeRange;
}

export function NoRows({ asked, onRange }: { asked: Asked; onRange(range: TimeRange): void }) {
  const { language, text, database, range } = asked;
  const [found, setFound] = useState<string | null>(null);
  const [isLooking, setIsLooking] = useState(false);
  if (!usesVariables(text) || sourceOf(text) === null) return <p class="empty">No rows.</p>;
  const look = async () => {
    if (isLooking) return;
    setIsLooking(true);
    try {
      const reach = await reachOfQuery(language, text, database);
      if (reach === null) return setFound("There are no points at all in what the query reads.");
      const next = newestOf(reach);
      const [now, newest] = [resolve(range), resolve(next)];
      if (now.from <= newest.from && newest.to <= now.to) return setFound("The range has points, but none that fits the rest of the query.");
      onRange(next);
    } catch (error) {
      setFound((error as Error).message);
    } finally {
      setIsLooking(false);
    }
  };
  return (
    <div class="empty">
      <p>No rows in the chosen range.</p>
      {found === null ? (
        <button type="button" class="quiet" aria-disabled={isLooking} onClick={() => void look()}>
          Show the range that has data
        </button>
      ) : (
        <p role="status">{found}</p>
      )}
    </div>
  );
}
