// The icons of the pages.

const PATHS: Record<string, string> = {
  query: "M4 5h16M4 10h10M4 15h7M16 14l4 3-4 3z",
  explore: "M4 6h6v5H4zM14 4h6v4h-6zM14 12h6v4h-6zM10 8h2v-2h2M12 8v6h2M4 20h16",
  dashboards: "M4 4h7v9H4zM13 4h7v5h-7zM13 11h7v9h-7zM4 15h7v5H4z",
  activity: "M3 12h4l3-8 4 16 3-8h4",
  storage: "M4 6c0-3 16-3 16 0s-16 3-16 0v12c0 3 16 3 16 0V6M4 12c0 3 16 3 16 0",
  administration: "M12 12a4 4 0 100-8 4 4 0 000 8zM4 21c0-5 3-7 8-7s8 2 8 7",
  start: "M5 3l14 9-14 9z",
};

export const Icon = ({ name }: { name: string }) => (
  <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);

export const Mark = () => (
  <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
    <rect width="32" height="32" rx="8" fill="#1c2430" />
    <path d="M9 25C6 17 13 15 9 6M23 25c3-8-4-10 0-19" fill="none" stroke="#f0a63c" stroke-width="3" stroke-linecap="round" />
    <path d="M12 25l4-7 4 7" fill="none" stroke="#57b6f0" stroke-width="3" stroke-linecap="round" stroke-linejoin="round" />
  </svg>
);
