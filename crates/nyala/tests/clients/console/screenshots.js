// Takes the pictures that the pages show, of a demonstration that runs (`nyala demo`), and keeps the dashboard in it:
// NODE_PATH=… node screenshots.js 127.0.0.1 8086 docs
const path = require('path');
const { drive, test } = require('./browser');

const DATABASE = 'nyala_demo';
const RANGE = { from: '1451606400000', to: '1451653200000' };
const BY_REGION = 'SELECT mean(usage_user) FROM cpu WHERE $timeFilter GROUP BY time($interval), region';
const panel = (title, view, text, size = 'half') => ({ title, language: 'influxql', text, view, size });
const PANELS = [
  panel('Use by region', 'line', BY_REGION),
  panel('User and system time', 'area', 'SELECT mean(usage_user) AS "user", mean(usage_system) AS "system" FROM cpu WHERE $timeFilter GROUP BY time($interval)'),
  panel('All hosts', 'heat', 'SELECT usage_user FROM cpu WHERE $timeFilter'),
  panel('Newest values', 'value', BY_REGION.replace('$timeFilter', "$timeFilter AND region =~ /^(eu|us-west)-/")),
];
const folder = path.resolve(process.argv[4]);

async function take(name, size, steps) {
  await drive(async (page) => {
    await steps(page);
    await page.until('everything to be drawn', () => document.querySelector('.loading, [aria-busy=true]') === null);
    await new Promise((resolve) => setTimeout(resolve, 500));
    await page.inner.screenshot({ path: path.join(folder, name) });
  }, size);
}

test(async () => {
  await take('console-dashboard.png', { theme: 'dark', width: 1520, height: 745 }, async (page) => {
    const definition = JSON.stringify({ panels: PANELS, range: RANGE }).replaceAll("'", "''");
    for (const statement of [
      'CREATE TABLE IF NOT EXISTS nyala_dashboards (name text PRIMARY KEY, version bigint NOT NULL, definition text NOT NULL)',
      `INSERT INTO nyala_dashboards VALUES ('Fleet', 1, '${definition}') ON CONFLICT (name) DO UPDATE SET definition = excluded.definition`,
    ]) {
      const answer = await fetch(`${page.base}api/sql?db=${DATABASE}`, { method: 'POST', body: statement });
      if (!answer.ok) throw new Error(await answer.text());
    }
    await page.open(`#/dashboards?db=${DATABASE}&name=Fleet`);
    await page.until('four panels', () => document.querySelectorAll('.panel canvas').length >= 3 && document.querySelectorAll('.single-values li').length > 0);
  });
  await take('console-query.png', { theme: 'light', width: 1240, height: 720 }, async (page) => {
    await page.open(`#/query?${new URLSearchParams({ db: DATABASE, ...RANGE })}`);
    await page.offers(DATABASE);
    // The first time, the server reads what it has not in memory yet.
    for (let i = 0; i < 3; i++) {
      await page.ask(BY_REGION);
      await page.until('a plot', () => document.querySelector('.plot-frame canvas') !== null);
      await page.until('the answer', () => document.querySelector('[aria-busy=true]') === null);
    }
    await page.inner.mouse.move(0, 0);
  });
});
