// Numbers as people read them.

const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const LONG = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });
const SIX = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });

/** `12,345.6789` */
export const number = (value: number) => LONG.format(value);

/** A value beside a point: exact for whole numbers, six digits otherwise. */
export function value(of: number | null | undefined): string {
  if (of === null || of === undefined || Number.isNaN(of)) return "–";
  if (Number.isInteger(of)) return LONG.format(of);
  const size = Math.abs(of);
  return size >= 1e6 || size < 1e-3 ? of.toPrecision(6) : SIX.format(of);
}

/** `1.2M` */
export const short = (value: number) => SHORT.format(value);

/** `12.3 MiB` */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 2 : 1)} ${units[unit]}`;
}

/** `3.4 ms`, `12 s` */
export function elapsed(ms: number): string {
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${ms.toFixed(0)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export const plural = (count: number, one: string, many = `${one}s`) => `${LONG.format(count)} ${count === 1 ? one : many}`;
