// What is in a database: policies, measurements, fields and tags, with how many series they have. A click makes a query.

import { useState } from "preact/hooks";
import { firstNumber, plotQuery, quoted } from "../query/plot_query";
import { newestOf, reachOf } from "../query/range_with_data";
import { rangeParams } from "../query/range_picker";
import { text } from "../server/quoting";
import * as schema from "../server/schema";
import { revision } from "../server/session";
import { number, plural } from "../ui/numbers";
import { go, link, route } from "../ui/route";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";

/** More names are not listed; the filter finds them. */
const LISTED_MAX = 500;

export function ExplorePage() {
  const { params } = route.value;
  const databases = useLoaded(schema.databases, [revision.value]);
  const database = params.get("db") ?? databases.value?.find((name) => name !== "_internal") ?? "";
  const measurement = params.get("measurement");
  const [filter, setFilter] = useState("");
  const measurements = useLoaded(async () => (database === "" ? [] : schema.measurements(database)), [database, revision.value]);
  const policies = useLoaded(async () => (database === "" ? [] : schema.policies(database)), [database, revision.value]);
  const total = useLoaded(async () => (database === "" ? null : schema.cardinality(database)), [database, revision.value]);
  const matching = (measurements.value ?? []).filter((name) => name.toLowerCase().includes(filter.toLowerCase()));
  return (
    <div class="page explore">
      <div class="page-head">
        <h1>Explore</h1>
        <label class="field-inline">
          Database
          <select value={database} onChange={(event) => go("explore", { db: event.currentTarget.value })}>
            {[...new Set([database, ...(databases.value ?? [])])].map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <span class="facts">
          {plural(measurements.value?.length ?? 0, "measurement")}
          {typeof total.value === "number" && `, about ${number(total.value)} series`}
        </span>
        <span class="spacer" />
        {policies.value?.map((policy) => (
          <span class="tag" key={policy.name}>
            {policy.name}: {policy.duration === "0s" ? "kept for ever" : `kept for ${policy.duration}`}
            {policy.default === "true" ? ", default" : ""}
          </span>
        ))}
      </div>
      <section class="card" aria-label="Measurements">
        <h2>Measurements</h2>
        <input type="search" placeholder="Filter" aria-label="Filter measurements" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        {measurements.error !== null && <p class="failure">{measurements.error}</p>}
        <ul class="picks">
          {matching.slice(0, LISTED_MAX).map((name) => (
            <li key={name}>
              <button type="button" aria-current={name === measurement} title={name} onClick={() => go("explore", { db: database, measurement: name })}>
                {name}
              </button>
            </li>
          ))}
        </ul>
        {matching.length > LISTED_MAX && <p class="facts">and {number(matching.length - LISTED_MAX)} more: filter them</p>}
        {measurements.value?.length === 0 && (
          <p class="facts">
            None yet. <a href={link("start")}>Write a first point.</a>
          </p>
        )}
      </section>
      {measurement === null ? (
        <p class="empty">Choose a measurement to see its fields and tags.</p>
      ) : (
        <Measurement key={`${database}\n${measurement}`} database={database} measurement={measurement} policies={policies.value ?? []} />
      )}
    </div>
  );
}

interface MeasurementProps {
  database: string;
  measurement: string;
  policies: Record<string, string>[];
}

function Measurement({ database, measurement, policies }: MeasurementProps) {
  const fields = useLoaded(() => schema.fields(database, measurement), [database, measurement, revision.value]);
  const tags = useLoaded(() => schema.tags(database, measurement), [database, measurement, revision.value]);
  const series = useLoaded(() => schema.cardinality(database, measurement), [database, measurement, revision.value]);
  const [policy, setPolicy] = useState("");
  const source = policy === "" ? quoted(measurement) : `${quoted(policy)}.${quoted(measurement)}`;

  const open = async (query: string, field: schema.Field | undefined) => {
    const range = field === undefined ? {} : await rangeWithData(database, source, field.name);
    go("query", { language: "influxql", db: database, q: query, ...range }, true);
  };
  const plot = (field: schema.Field, where = "", by = "") => void open(plotQuery(source, field, where, by), field);
  const shown = firstNumber(fields.value ?? []);
  return (
    <section class="card" aria-label={`Measurement ${measurement}`}>
      <div class="card-head">
        <h2>{measurement}</h2>
        {typeof series.value === "number" && <span class="tag">about {plural(series.value, "series", "series")}</span>}
        <span class="spacer" />
        {policies.length > 1 && (
          <label class="field-inline">
            Policy
            <select value={policy} onChange={(event) => setPolicy(event.currentTarget.value)}>
              <option value="">default</option>
              {policies.map(({ name }) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <button type="button" class="quiet" onClick={() => void open(`SELECT * FROM ${source} WHERE $timeFilter LIMIT 1000`, shown)}>
          Show points
        </button>
      </div>
      <h3>Fields: click to plot</h3>
      {fields.error !== null && <p class="failure">{fields.error}</p>}
      <div class="chips">
        {fields.value?.map((field) => (
          <button type="button" key={`${field.name} ${field.type}`} onClick={() => plot(field)}>
            {field.name} <span class="facts">{field.type}</span>
          </button>
        ))}
      </div>
      <h3>Tags: click for a series each</h3>
      <ul class="stack">
        {tags.value?.map((tag) => (
          <Tag
            key={tag}
            database={database}
            measurement={measurement}
            tag={tag}
            onGroup={() => shown !== undefined && plot(shown, "", `, ${quoted(tag)}`)}
            onValue={(value) => shown !== undefined && plot(shown, ` AND ${quoted(tag)} = ${text(value)}`)}
          />
        ))}
      </ul>
      {tags.value?.length === 0 && <p class="facts">No tags.</p>}
    </section>
  );
}

interface TagProps {
  database: string;
  measurement: string;
  tag: string;
  onGroup(): void;
  onValue(value: string): void;
}

const VALUES_SHOWN = 12;

function Tag({ database, measurement, tag, onGroup, onValue }: TagProps) {
  const values = useLoaded(() => schema.tagValues(database, measurement, tag), [database, measurement, tag]);
  const [all, setAll] = useState(false);
  const shown = values.value?.slice(0, all ? undefined : VALUES_SHOWN) ?? [];
  const rest = (values.value?.length ?? 0) - shown.length;
  return (
    <li class="chips">
      <button type="button" class="tag-key" onClick={onGroup} title={`One series for each ${tag}`}>
        {tag}
      </button>
      {shown.map((value) => (
        <button type="button" key={value} onClick={() => onValue(value)}>
          {value === "" ? "(empty)" : value}
        </button>
      ))}
      {rest > 0 && (
        <button type="button" class="plain" onClick={() => setAll(true)}>
          {rest} more{values.value?.length === 200 ? " or beyond" : ""}
        </button>
      )}
    </li>
  );
}

/** A range that has points, for a link; nothing if it is not known. */
async function rangeWithData(database: string, source: string, field: string): Promise<Record<string, string>> {
  try {
    const reach = await reachOf(database, source, [field]);
    return rangeParams(reach === null ? { last: "1h" } : newestOf(reach));
  } catch (error) {
    say((error as Error).message, "bad");
    return {};
  }
}
