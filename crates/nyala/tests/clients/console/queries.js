// The page of queries: both languages, completion, errors at their place, history, links, cancel, download, plots, zoom.
const assert = require('assert');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { drive, test } = require('./browser');

const RANGE = 'from=1451606400000&to=1451610000000';
const MEANS = 'SELECT mean(usage) FROM cpu WHERE $timeFilter GROUP BY time($interval), host';

/** Whether the plot has pixels of the colour of each series in its legend. */
function drawsEverySeries() {
  const canvas = document.querySelector('.plot-frame canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colors = [...document.querySelectorAll('.legend button svg')].map((swatch) => {
    const shape = swatch.querySelector('line') ?? swatch.querySelector('rect');
    const [red, green, blue] = /^#(..)(..)(..)/.exec(shape.getAttribute(shape.tagName === 'line' ? 'stroke' : 'fill')).slice(1).map((part) => parseInt(part, 16));
    let pixels = 0;
    for (let i = 0; i < data.length; i += 4) {
      if (Math.abs(data[i] - red) + Math.abs(data[i + 1] - green) + Math.abs(data[i + 2] - blue) < 12 && data[i + 3] > 200) pixels++;
    }
    return pixels;
  });
  return colors.length > 0 && colors.every((pixels) => pixels > 100);
}

/** From when to when the link asks, in milliseconds. */
const linked = async (page) => {
  const params = new URLSearchParams((await page.evaluate(() => location.hash)).split('?')[1]);
  return { from: Number(params.get('from')), to: Number(params.get('to')) };
};

/** Does something with the plot, and gives the range that the page asks for afterwards. */
async function moved(page, what, act) {
  const before = await page.evaluate(() => location.hash);
  const sent = page.sent.length;
  await act();
  await page.until(`another range by ${what}`, (before) => location.hash !== before, before);
  // The page notes the range in its link first, and then waits for the answer, which draws the plot anew.
  for (let i = 0; i < 20 && page.sent.length === sent; i++) await new Promise((resolve) => setTimeout(resolve, 100));
  await page.until('an answer', () => document.querySelector('[aria-busy=true]') === null);
  await new Promise((resolve) => setTimeout(resolve, 100));
  return linked(page);
}

/** Drags over the plot between two shares of its width. */
async function drag(page, from, to) {
  await page.inner.waitForSelector('.u-over, canvas[role=img]');
  const box = await page.evaluate(() => document.querySelector('.u-over, canvas[role=img]').getBoundingClientRect().toJSON());
  await page.inner.mouse.move(box.x + box.width * from, box.y + 50);
  await page.inner.mouse.down();
  await page.inner.mouse.move(box.x + box.width * to, box.y + 60, { steps: 4 });
  await page.inner.mouse.up();
}

test(() => drive(async (page) => {
  await page.open(`#/query?db=d&${RANGE}&q=${encodeURIComponent('DROP MEASUREMENT cpu')}`);
  await page.shows('Write a query');
  const asked = page.urls.filter((url) => /\/query(\?read_only=true)?$/.test(url)).length;
  // A link never runs its statement by itself.
  await page.offers('d');
  assert.ok(asked <= 3, page.urls.join('\n'));

  await page.ask(MEANS);
  await page.shows('2 series');
  await page.until('a plot', () => document.querySelector('.plot-frame canvas') !== null);
  await page.isAccessible('a plot');
  for (const view of ['Area', 'Bars', 'Heat map', 'Value', 'Table', 'Line']) {
    await page.click('radio', view);
    if (view === 'Value') await page.until('values', () => document.querySelectorAll('.single-values li').length === 2);
    if (view === 'Table') await page.until('rows', () => document.querySelectorAll('.grid-body [role=row]').length > 5);
    // Stacked, so that no series hides another: each has pixels of its colour.
    if (view === 'Area' || view === 'Bars') {
      await page.shows('stacked');
      await page.until(`both series as ${view}`, drawsEverySeries);
    }
    if (view === 'Heat map') await page.until('a heat map', () => document.querySelector('canvas[role=img]') !== null);
    await page.isAccessible(view);
  }

  // As many values as are said: all of 40 series, and 60 of 70.
  await page.click('radio', 'Value');
  for (const series of [40, 70]) {
    await page.ask(Array.from({ length: series }, (_, i) => `SELECT usage AS usage${i} FROM cpu WHERE host = 'a' LIMIT 1`).join('; '));
    await page.shows(`${series} series`);
    await page.until('its values', (shown) => document.querySelectorAll('.single-values li').length === shown, Math.min(series, 60));
    assert.strictEqual((await page.text()).includes('10 further series are not shown'), series === 70);
  }
  await page.isAccessible('many values');
  await page.click('radio', 'Line');
  await page.ask(MEANS);
  await page.shows('2 series');

  // A zoom asks again, with a finer interval.
  const zoomed = await moved(page, 'a drag', () => drag(page, 0.4, 0.6));
  await page.shows('Zoom out');
  assert.ok(zoomed.to - zoomed.from < 1_800_000, JSON.stringify(zoomed));
  // With shift, a drag moves the same length of time.
  await page.inner.keyboard.down('Shift');
  const later = await moved(page, 'a drag with shift', () => drag(page, 0.7, 0.2));
  await page.inner.keyboard.up('Shift');
  const share = (later.from - zoomed.from) / (zoomed.to - zoomed.from);
  assert.ok(Math.abs(share - 0.5) < 0.05, `${share} of the range`);
  assert.ok(Math.abs(later.to - later.from - (zoomed.to - zoomed.from)) <= 2);
  // The same by buttons.
  const earlier = await moved(page, 'a button', () => page.click('button', 'Earlier'));
  assert.ok(earlier.from < later.from);
  const wider = await moved(page, 'a button', () => page.click('button', 'Wider range'));
  assert.ok(wider.to - wider.from > 1.9 * (zoomed.to - zoomed.from));
  await moved(page, 'a button', () => page.click('button', 'Show all'));
  await page.hides('Zoom out');
  // The same by keyboard.
  await page.inner.focus('.plot-frame');
  await moved(page, 'a key', () => page.inner.keyboard.press('+'));
  await page.shows('Zoom out');
  await moved(page, 'a key', () => page.inner.keyboard.press('0'));
  await page.hides('Zoom out');

  // Another query without variables is shown as a whole.
  await moved(page, 'a key', () => page.inner.keyboard.press('+'));
  await page.shows('Zoom out');
  await page.ask("SELECT usage FROM cpu WHERE host = 'a' LIMIT 1");
  await page.shows('1 row,');
  await page.hides('Zoom out');
  await page.ask(MEANS);
  await page.shows('2 series');

  // A heat map is moved in the same ways, and arrow keys read its cells.
  await page.click('radio', 'Heat map');
  await page.shows('in a cell');
  await page.inner.focus('.plot-frame');
  await page.inner.keyboard.press('ArrowRight');
  await page.shows('2016-01-01T00:');
  const read = () => page.evaluate(() => document.querySelector('.heat-said').innerText);
  const first = await read();
  assert.match(first, /^2016-01-01T00:.*Z · .* to .* · \d+ points?$/);
  await page.inner.keyboard.press('ArrowRight');
  await page.until('another cell', (first) => document.querySelector('.heat-said').innerText !== first, first);
  await page.isAccessible('a cell of a heat map');
  const part = await moved(page, 'a drag', () => drag(page, 0.4, 0.6));
  assert.ok(part.to - part.from < 1_800_000, JSON.stringify(part));
  await page.inner.focus('.plot-frame');
  await page.inner.keyboard.down('Shift');
  const next = await moved(page, 'a key', () => page.inner.keyboard.press('ArrowRight'));
  await page.inner.keyboard.up('Shift');
  assert.ok(next.from > part.from);
  await page.inner.keyboard.press('0');
  await page.hides('Zoom out');
  await page.click('radio', 'Line');

  // Who asks for a range without data is led to the one that has some, in both languages.
  const today = async (text) => {
    await page.choose('Last', '1h');
    await page.ask(text);
    await page.shows('No rows in the chosen range.');
  };
  await today(MEANS);
  await page.isAccessible('no rows');
  await page.click('button', 'Show the range that has data');
  await page.shows('2 series');
  assert.deepStrictEqual(await linked(page), { from: 1451606400000, to: 1451609991000 });
  // The button is gone; who pressed it goes on at the answer.
  assert.strictEqual(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Answer');
  await page.click('radio', 'SQL');
  await today('SELECT time, usage FROM cpu WHERE $timeFilter');
  await page.click('button', 'Show the range that has data');
  await page.shows('720 rows');
  await page.click('radio', 'InfluxQL');
  await today("SELECT usage FROM cpu WHERE $timeFilter AND host = 'nobody'");
  await page.click('button', 'Show the range that has data');
  await page.until('the range', () => document.querySelector('[aria-label="From (UTC)"]') !== null);
  await page.click('button', 'Show the range that has data');
  await page.shows('none that fits the rest of the query');
  await today('SELECT usage FROM nothing WHERE $timeFilter');
  await page.click('button', 'Show the range that has data');
  await page.shows('There are no points at all');

  await page.open(`#/query?db=d&${RANGE}`);
  await page.offers('d');
  // Errors stand where they are.
  await page.ask('SELECT mean(usage FROM cpu');
  await page.shows('error parsing query');
  await page.until('a mark', () => document.querySelector('.editor').shadowRoot.querySelector('.cm-lintRange-error') !== null);
  const marked = await page.evaluate(() => document.querySelector('.editor').shadowRoot.querySelector('.cm-lintRange-error').textContent);
  assert.strictEqual(marked, 'FROM');
  await page.isAccessible('an error');
  await page.click('radio', 'SQL');
  await page.ask('SELECT host, max(usage) AS most FROM cpu WHERE $timeFilter AND nothing = 1 GROUP BY host');
  await page.until('a mark', () => document.querySelector('.editor').shadowRoot.querySelector('.cm-lintRange-error')?.textContent === 'nothing');
  await page.ask('SELECT host, max(usage) AS most FROM cpu WHERE $timeFilter GROUP BY host ORDER BY host');
  await page.shows('no numbers over time');
  const cells = await page.evaluate(() => [...document.querySelectorAll('.grid-body [role=cell]')].map((cell) => cell.textContent));
  assert.deepStrictEqual(cells, ['a', '59.5', 'b', '159.5']);
  await page.click('radio', 'Table');
  // Whole numbers beyond 2^53, and nanoseconds, are exact.
  await page.ask("SELECT 9223372036854775807::bigint AS large, '2026-01-01 00:00:00.123456789'::timestamptz AS at");
  await page.shows('9223372036854775807');
  await page.shows('2026-01-01T00:00:00.123456789Z');

  // Completion knows the schema, before a measurement is named, too.
  const selected = (what, begin) =>
    page.until(what, (begin) => document.querySelector('.editor').shadowRoot.querySelector('[role=option][aria-selected]')?.textContent.startsWith(begin), begin);
  for (const language of ['SQL', 'InfluxQL']) {
    await page.click('radio', language);
    await page.edit('SELECT max(');
    await page.inner.keyboard.type('usa');
    await selected(`a field in ${language}`, 'usagefloat · cpu');
    await new Promise((resolve) => setTimeout(resolve, 150));
    await page.inner.keyboard.press('Enter');
    await page.until('the completed text', () => document.querySelector('.editor').shadowRoot.querySelector('.cm-content').textContent.includes('max(usage'));
  }
  await page.edit('SELECT mean() FROM cpu');
  await page.inner.keyboard.press('Home');
  for (let i = 0; i < 'SELECT mean('.length; i++) await page.inner.keyboard.press('ArrowRight');
  await page.inner.keyboard.type('us');
  await page.until('a completion', () => document.querySelector('.editor').shadowRoot.querySelector('[role=option][aria-selected]')?.textContent.startsWith('usage'));
  await page.isAccessible('completions');
  // A key that comes at once was not meant for the list.
  await new Promise((resolve) => setTimeout(resolve, 150));
  await page.inner.keyboard.press('Enter');
  await page.until('the completed text', () => document.querySelector('.editor').shadowRoot.querySelector('.cm-content').textContent.includes('mean(usage) FROM'));

  await page.click('radio', 'SQL');
  await page.edit('SELECT * FROM cpu WHERE ');
  await page.inner.keyboard.type('ho');
  await page.until('a column', () => document.querySelector('.editor').shadowRoot.querySelector('[role=option][aria-selected]')?.textContent === 'hosttext');
  await page.inner.keyboard.press('Escape');
  await page.click('radio', 'InfluxQL');

  // History; statements with passwords are not in it, nor in the link.
  await page.ask("CREATE USER bob WITH PASSWORD 'hidden secret'");
  await page.shows('No rows');
  await page.ask("CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'http://ann:hidden@127.0.0.1:1'");
  await page.shows('No rows');
  await page.click('button', 'Share');
  await page.shows('is not put into a link');
  await page.ask('DROP SUBSCRIPTION s ON d.autogen');
  await page.shows('No rows');
  const kept = await page.evaluate(() => JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + location.href);
  assert.ok(!kept.includes('hidden'), kept);
  assert.ok(kept.includes('mean(usage)'), kept);
  await page.click('button', 'History');
  await page.shows('Queries of this browser');
  assert.match(await page.text(), /InfluxQL · d · \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/);
  await page.isAccessible('the history');
  await page.inner.locator('.past button').click();
  await page.hides('Queries of this browser');

  // The whole answer as CSV.
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'nyala-console-'));
  const session = await page.inner.createCDPSession();
  await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder });
  await page.click('radio', 'InfluxQL');
  await page.ask('SELECT usage FROM cpu LIMIT 2');
  await page.shows('2 rows');
  await page.click('button', 'CSV');
  for (let i = 0; i < 2400 && !fs.readdirSync(folder).some((name) => name.endsWith('.csv')); i++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const [name] = fs.readdirSync(folder);
  const csv = fs.readFileSync(path.join(folder, name), 'utf8');
  assert.match(csv, /^name,tags,time,usage\ncpu,,1451606400000000000,0\n/);
  fs.rmSync(folder, { recursive: true });

  // Cancel ends the query on the server, too.
  await page.click('radio', 'SQL');
  await page.ask('SELECT count(*) FROM generate_series(1, 100000) AS a(x), generate_series(1, 100000) AS b(y) WHERE x * y % 7 = 3');
  await page.click('button', 'Cancel');
  await page.shows('Cancelled.');
  const running = async () => {
    const response = await fetch(`${page.base}query?q=SHOW+QUERIES`);
    return response.text();
  };
  for (let i = 0; i < 2400 && (await running()).includes('generate_series'); i++) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.ok(!(await running()).includes('generate_series'));
}, { theme: 'light' }));
