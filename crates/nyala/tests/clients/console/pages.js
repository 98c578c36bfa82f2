// The other pages: explorer, dashboards, activity, storage, administration; in both themes and on a phone.
const assert = require('assert');
const { drive, test } = require('./browser');

/** The cells of tables that stand in several lines although they are no free text. */
const brokenCells = (page) =>
  page.evaluate(() => {
    const cells = [...document.querySelectorAll('table.list td:not(.words)')];
    const lines = (cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return new Set([...range.getClientRects()].filter(({ width }) => width > 0).map(({ bottom }) => Math.round(bottom / 8))).size;
    };
    return cells.filter((cell) => cell.childElementCount === 0 && lines(cell) > 1).map((cell) => cell.innerText);
  });

/** Every page, with a word of what it reads last. */
const PAGES = {
  'query?db=d': 'Write a query',
  'explore?db=d&measurement=cpu': 'about 2 series',
  'dashboards?db=d&name=Fleet': 'Renamed',
  activity: 'Least level',
  storage: 'memory-limit',
  administration: 'autogen',
  start: 'Write a first point',
};

/** No page is wider than the window, or higher: `main` scrolls, not the document. */
async function fitTheWindow(page, act) {
  for (const [name, word] of Object.entries(PAGES)) {
    await page.open(`#/${name}`);
    await page.until(word, (word) => document.querySelector('main h1') !== null && (document.body.innerText.includes(word) || document.querySelector(`[aria-label="${word}"]`) !== null), word);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const beyond = await page.evaluate(() => {
      const { scrollWidth, scrollHeight } = document.documentElement;
      return { wide: scrollWidth > innerWidth || document.querySelector('main').scrollWidth > innerWidth, high: scrollHeight > innerHeight && scrollHeight };
    });
    assert.deepStrictEqual(beyond, { wide: false, high: false }, `${name} is larger than the window`);
    await act(name);
  }
}

/** A panel that cannot be read is refused where its query stands; one that the server does not run today is doubted. */
async function savesWhatCanRun(page, sql) {
  const saved = async () => JSON.stringify(await sql('SELECT definition FROM nyala_dashboards'));
  const save = async (language, text) => {
    await page.open('#/query?db=d&last=1h');
    await page.offers('d');
    await page.click('radio', language);
    await page.edit(text);
    await page.click('button', 'Save');
    await page.until('the form', () => document.querySelector('dialog select') !== null);
    await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  };
  const label = () => page.evaluate(() => document.querySelector('dialog [type=submit]').innerText);
  const before = await saved();
  for (const [language, text, words, at] of [
    ['InfluxQL', 'SELECT mean(usage FROM cpu', 'error parsing query: found FROM', 'FROM'],
    ['InfluxQL', 'SELECT usage FROM cpu; SELECT usage FORM cpu', 'error parsing query', 'FORM'],
    ['SQL', 'SELECT max(usage FROM cpu WHERE $timeFilter', 'found: FROM', 'FROM'],
  ]) {
    await save(language, text);
    await page.shows(words);
    await page.shows('A panel that cannot be run is not saved.');
    await page.until('a mark', (at) => document.querySelector('.editor').shadowRoot.querySelector('.cm-lintRange-error')?.textContent === at, at);
    await page.isAccessible('a panel that is refused');
    // Nor does a second try save it.
    await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.strictEqual(await label(), 'Save');
    assert.strictEqual(await saved(), before, text);
  }
  // A column may come some day, so who is told may save it.
  await save('SQL', 'SELECT time, nothing FROM cpu WHERE $timeFilter');
  await page.shows('The panel would show this error.');
  assert.strictEqual(await label(), 'Save anyway');
  await page.isAccessible('a panel that is doubted');
  assert.strictEqual(await saved(), before);
  await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  await page.until('the dashboard', () => location.hash.startsWith('#/dashboards'));
  assert.match(await saved(), /time, nothing FROM cpu/);
  // A measurement or table that is not there yet is no error.
  for (const [language, text] of [['InfluxQL', 'SELECT mean(v) FROM later WHERE $timeFilter GROUP BY time($interval)'], ['SQL', 'SELECT time, v FROM later_table WHERE $timeFilter']]) {
    await save(language, text);
    await page.until('the dashboard', () => location.hash.startsWith('#/dashboards'));
    assert.ok((await saved()).includes(text), text);
  }
}

/** Presses a button by keyboard, as who uses no mouse does. */
async function press(page, name) {
  await (await page.find('button', name).waitHandle()).focus();
  await page.inner.keyboard.press('Enter');
}

/** Drops something by keyboard, and waits until something else has the focus. */
async function drops(page, name, next) {
  await press(page, name);
  await page.until('the question', () => document.activeElement.innerText === 'Keep');
  await page.inner.keyboard.press('Tab');
  await page.inner.keyboard.press('Enter');
  await page.until(`the focus at ${next} after “${name}”`, (next) => (document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText) === next, next);
}

/** Who drops a row by keyboard is at the next row, then at the one before, and at a heading when there is none. */
async function keepsTheFocus(page) {
  const asked = (query) => fetch(`${page.base}query`, { method: 'POST', body: new URLSearchParams({ q: query }) });
  await asked("CREATE USER u1 WITH PASSWORD 'x'; CREATE USER u2 WITH PASSWORD 'x'; CREATE USER u3 WITH PASSWORD 'x'; GRANT READ ON d TO u2");
  await asked('CREATE TOKEN t1 FOR u1; CREATE TOKEN t2 FOR u1');
  const cq = (name) => `CREATE CONTINUOUS QUERY ${name} ON d BEGIN SELECT mean(usage) INTO cpu_hourly FROM cpu GROUP BY time(1h) END`;
  await asked(`${cq('c1')}; ${cq('c2')}`);
  await asked('CREATE DATABASE kept; CREATE RETENTION POLICY p1 ON kept DURATION 1d REPLICATION 1; CREATE RETENTION POLICY p2 ON kept DURATION 1d REPLICATION 1');
  await page.open('#/administration');
  await page.click('radio', 'Continuous queries');
  await drops(page, 'Drop continuous query c1', 'Drop continuous query c2');
  await drops(page, 'Drop continuous query c2', 'Continuous queries');
  await page.click('radio', 'Tokens');
  await drops(page, 'Drop token t2', 'Drop token t1');
  await drops(page, 'Drop token t1', 'Administration');
  await page.click('radio', 'Users');
  await press(page, 'Revoke READ on d from u2');
  await page.until('the user', () => document.activeElement.innerText === 'u2' && document.activeElement.tagName === 'H2');
  await drops(page, 'Drop user u1', 'Drop user u2');
  await drops(page, 'Drop user u3', 'Drop user u2');
  await drops(page, 'Drop user u2', 'Administration');
  // Who keeps it is where they were.
  await page.click('radio', 'Databases');
  await press(page, 'Drop policy p1');
  await page.until('the question', () => document.activeElement.tagName === 'INPUT');
  await page.inner.keyboard.press('Tab');
  await page.inner.keyboard.press('Enter');
  await page.until('the button', () => document.activeElement.getAttribute('aria-label') === 'Drop policy p1');
  await press(page, 'Drop policy p1');
  await page.until('the question', () => document.activeElement.tagName === 'INPUT');
  await page.inner.keyboard.type('p1');
  await page.inner.keyboard.press('Enter');
  await page.until('the next policy', () => document.activeElement.getAttribute('aria-label') === 'Drop policy p2');
  await page.isAccessible('after policies');
  await asked('DROP DATABASE kept');
}

async function steps(page) {
  // Wherever somebody is, times are UTC.
  await page.inner.emulateTimezone('America/New_York');
  await page.open('#/explore?db=d');
  await page.click('button', 'cpu');
  await page.shows('about 2 series');
  await page.shows('usage float');
  await page.isAccessible('explorer');
  // A click makes a query of a range that has points, and runs it.
  await page.click('button', 'usage float');
  await page.until('a plot', () => document.querySelector('.plot-frame canvas') !== null);
  await page.shows('cpu mean');

  await page.click('button', 'Save');
  await page.until('the form', () => document.querySelector('dialog select') !== null && document.activeElement === document.querySelector('dialog select'));
  await page.fill('textbox', 'Name of the dashboard', 'Fleet');
  await page.fill('textbox', 'Title of the panel', 'Use of all hosts');
  await page.isAccessible('the form of a panel');
  await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  await page.shows('Use of all hosts');
  await page.until('the plot of the panel', () => document.querySelector('.panel canvas') !== null);
  // The values at the mouse stay, also where they make the legend a line longer, and the plot lower.
  await page.evaluate(() => (document.querySelector('.panel .legend').style.width = '150px'));
  const over = await page.evaluate(() => document.querySelector('.panel .u-over').getBoundingClientRect().toJSON());
  for (let i = 0; i < 4; i++) await page.inner.mouse.move(over.x + 50 + 10 * i, over.y + 40);
  const hasValues = () => document.querySelectorAll('.panel .legend-value').length > 0;
  await page.until('the values at the mouse', hasValues);
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.ok(await page.evaluate(hasValues), await page.text());
  await page.isAccessible('a dashboard');
  // It is in the database, not in the browser.
  await page.evaluate(() => localStorage.clear());
  await page.open('#/dashboards?db=d');
  await page.inner.locator('.dashboard-card').click();
  await page.until('the plot of the panel', () => document.querySelector('.panel canvas') !== null);
  await page.click('button', 'Edit');
  await page.fill('textbox', 'Title of the panel', 'Renamed');
  await page.isAccessible('a dashboard being edited');
  // Somebody else was quicker.
  const sql = (query) => fetch(`${page.base}api/sql?db=d`, { method: 'POST', body: query }).then((response) => response.text());
  await sql("UPDATE nyala_dashboards SET version = version + 1 WHERE name = 'Fleet'");
  await page.click('button', 'Save');
  await page.shows('Somebody else has saved');
  await page.open('#/dashboards?db=d&name=Fleet');
  await page.click('button', 'Edit');
  await page.fill('textbox', 'Title of the panel', 'Renamed');
  await page.click('button', 'Save');
  await page.shows('Saved.');
  assert.match(await sql('SELECT definition FROM nyala_dashboards'), /Renamed/);
  // A panel without rows in the chosen range leads to one that has some.
  await page.choose('Last', '1h');
  await page.shows('No rows in the chosen range.');
  await page.isAccessible('a panel without rows');
  await page.click('button', 'Show the range that has data');
  await page.until('the plot of the panel', () => document.querySelector('.panel canvas') !== null);
  await page.until('the focus', () => document.activeElement.tagName === 'H2' && document.activeElement.innerText === 'Renamed');
  await savesWhatCanRun(page, sql);
  // A dashboard asks by itself, so it runs nothing that changes.
  const harmful = JSON.stringify({ panels: [{ title: 'Harm', language: 'influxql', text: 'SELECT usage INTO stolen FROM cpu', view: 'line', size: 'half' }], range: {} });
  await sql(`INSERT INTO nyala_dashboards VALUES ('Harm', 1, '${harmful}')`);
  await page.open('#/dashboards?db=d&name=Harm');
  await page.shows('does not only read');
  assert.ok(!(await (await fetch(`${page.base}query?db=d&q=SHOW+MEASUREMENTS`)).text()).includes('stolen'));
  // Nor does a function of SQL act; the server is told, too, that panels only read.
  await sql('CREATE SEQUENCE numbers');
  await sql("CREATE VIEW hidden AS SELECT setval('numbers', 777) AS it");
  const acting = ["SELECT setval('numbers', 777)", "SELECT pg_sleep(60)"].map((text) => ({ title: 'Harm', language: 'sql', text, view: 'table', size: 'half' }));
  const reading = { title: 'Reads', language: 'sql', text: "SELECT 'it only reads' AS words", view: 'table', size: 'half' };
  const hiding = { ...reading, title: 'Hides', text: 'SELECT it FROM hidden' };
  const panels = JSON.stringify({ panels: [...acting, hiding, reading, { ...reading, language: 'influxql', text: 'SELECT usage FROM cpu LIMIT 3' }], range: {} });
  await sql(`UPDATE nyala_dashboards SET definition = '${panels.replaceAll("'", "''")}' WHERE name = 'Harm'`);
  page.sent.length = 0;
  await page.open('#/dashboards?db=d&name=Harm');
  await page.shows('it only reads');
  // What a view hides, the server refuses.
  await page.shows('in a read-only transaction');
  await page.until('the table of InfluxQL', () => document.querySelectorAll('.panel [role=row]').length >= 6);
  assert.strictEqual((await page.text()).split('does not only read').length - 1, acting.length);
  assert.match(await sql("SELECT nextval('numbers')"), /:1\b/);
  const asked = page.sent.filter(({ body }) => body.includes('only+reads') || body.includes('only reads') || body.includes('LIMIT+3'));
  assert.ok(asked.length >= 2 && asked.every(({ url }) => url.endsWith('?read_only=true')), JSON.stringify(page.sent));
  // Nor when the panel is opened as a query, before somebody presses Run.
  const failure = () => page.until('a refusal', () => document.querySelector('.query-page .failure')?.innerText.includes('in a read-only transaction'));
  await page.click('button', 'Open Hides as a query');
  await failure();
  assert.match(await sql("SELECT nextval('numbers')"), /:2\b/);
  await page.click('button', 'Run');
  await page.shows('777');
  // The answer is asked for again as CSV, and what the query did is not done again.
  assert.match(await sql("SELECT nextval('numbers')"), /:778\b/);
  await page.click('button', 'CSV');
  await page.shows('read-only');
  assert.match(await sql("SELECT nextval('numbers')"), /:779\b/);
  await page.open('#/dashboards?db=d&name=Harm');
  await page.shows('it only reads');
  await sql('DROP VIEW hidden');
  await sql('DROP SEQUENCE numbers');
  await page.click('button', 'Edit');
  await page.click('button', 'Drop');
  await page.shows('is dropped for everybody');
  assert.deepStrictEqual(await page.focused(), ['BUTTON', 'Keep']);
  await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  await page.shows('New dashboard');
  await page.hides('Harm');

  // A query that runs is shown, and can be ended.
  const slow = sql('SELECT count(*) FROM generate_series(1, 100000) AS a(x), generate_series(1, 100000) AS b(y) WHERE x * y % 7 = 3');
  await page.open('#/activity');
  await page.shows('generate_series');
  await page.shows('ready for queries and writes');
  await page.shows('index of series');
  // No two purposes have the same colour.
  const swatches = await page.evaluate(() => [...document.querySelectorAll('.swatch')].map(({ style }) => style.background));
  assert.ok(swatches.length >= 9 && new Set(swatches).size === swatches.length, swatches.join());
  await page.click('button', 'Cancel');
  await page.shows('End this query?');
  await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  assert.match(await slow, /"error"/);
  await page.shows('None at this moment.');
  // The server knows the one that was ended, although it is gone.
  await page.until('the slowest query', () => /generate_series.*by somebody/s.test(document.querySelector('[aria-label="Slowest queries"]').textContent));
  const ended = await page.evaluate(() => / (\S+), by somebody/.exec(document.querySelector('[aria-label="Slowest queries"]').innerText.replace(/\s+/g, ' '))[1]);
  assert.match(ended, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  assert.ok(Math.abs(Date.parse(ended) - Date.now()) < 600_000, ended);
  await page.until('rates', () => !document.querySelector('.figure').textContent.startsWith('…'));
  await page.shows('nyala starts');
  await page.fill('searchbox', 'Filter the log', 'nothing has this');
  await page.shows('No such lines.');
  await page.fill('searchbox', 'Filter the log', 'READY');
  await page.shows('ready address=');
  assert.deepStrictEqual(await brokenCells(page), []);
  await page.click('radio', 'error');
  await page.shows('No such lines.');
  await page.isAccessible('activity');

  await page.open('#/storage');
  await page.shows('bytes on disk');
  const rows = (label) => page.until(label, (label) => document.querySelectorAll(`[aria-label="${label}"] .grid-body [role=row]`).length > 0, label);
  await rows('Shards');
  await rows('Measurements and tables');
  await page.shows('memory-limit');
  // The points are in memory, or in a file if the server had nothing else to do.
  await page.until('the columns', () => /rows in memory|indexes, last rows/.test(document.body.innerText));
  await page.shows('Maintenance');
  await page.isAccessible('storage');

  await page.open('#/administration');
  await page.fill('textbox', 'Name of the database', 'extra');
  await page.click('button', 'Create');
  await page.shows('Created database');
  await page.click('button', 'Drop database extra');
  await page.shows('cannot be undone');
  await page.isAccessible('a question');
  assert.deepStrictEqual(await page.focused(), ['INPUT', '']);
  assert.ok(await page.evaluate(() => document.querySelector('dialog .danger').disabled));
  await page.inner.locator('dialog input').fill('extra');
  await page.inner.locator('dialog .danger').click();
  await page.shows('Dropped database');
  await page.isAccessible('databases');
  await page.click('radio', 'Users');
  await page.fill('textbox', 'Name of the user', 'carol');
  await page.inner.locator('input[name=password]').fill('pass phrase');
  await page.click('button', 'Create');
  await page.shows('carol');
  await page.click('button', 'Grant');
  await page.shows('READ on d');
  await page.isAccessible('users');
  await page.click('radio', 'Quotas');
  await page.fill('textbox', 'queries a minute of carol', '600');
  await page.click('button', 'Set');
  await page.shows('The quotas of “carol” are set.');
  await page.until('the quota', () => [...document.querySelectorAll('input')].some((input) => input.value === '600'));
  assert.match(await (await fetch(`${page.base}query?q=SHOW+QUOTAS`)).text(), /"carol",0,600,0,0,0,0,/);
  await page.isAccessible('quotas');
  // Of a group, Tab reaches the one that is chosen, and arrow keys choose among the others.
  const chosen = () => page.evaluate(() => [document.activeElement.innerText, document.activeElement.getAttribute('aria-checked')]);
  await page.inner.focus('[role=radio][aria-checked=true]');
  for (const [key, name] of [['ArrowLeft', 'Tokens'], ['End', 'Subscriptions'], ['ArrowRight', 'Databases'], ['ArrowUp', 'Subscriptions'], ['Home', 'Databases'], ['ArrowDown', 'Users'], ['ArrowDown', 'Tokens']]) {
    await page.inner.keyboard.press(key);
    assert.deepStrictEqual(await chosen(), [name, 'true'], key);
  }
  assert.strictEqual(await page.evaluate(() => document.querySelectorAll('[role=radio][tabindex="0"]').length), 1);
  await page.inner.keyboard.press('Tab');
  assert.notStrictEqual(await page.evaluate(() => document.activeElement.getAttribute('role')), 'radio');
  await page.shows('No tokens yet.');
  await page.fill('textbox', 'Name of the token', 'ci');
  await page.click('button', 'Create');
  // Its secret is shown once.
  await page.shows('nyala_');
  await page.shows('whatever its user may do');
  await page.isAccessible('tokens');
  await page.click('button', 'Hide');
  await page.hides('nyala_');
  await page.click('button', 'Drop token ci');
  await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  await page.shows('No tokens yet.');
  await page.click('radio', 'Users');
  await page.click('button', 'Drop user carol');
  await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  await page.shows('No users yet.');
  await page.click('radio', 'Continuous queries');
  await page.fill('textbox', 'Statement', 'CREATE CONTINUOUS QUERY hourly ON d BEGIN SELECT mean(usage) INTO cpu_hourly FROM cpu GROUP BY time(1h) END');
  await page.click('button', 'Create');
  await page.shows('GROUP BY time(1h)');
  await page.isAccessible('continuous queries');
  await page.click('button', 'Drop continuous query hourly');
  await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  await page.shows('None yet.');
  await page.click('radio', 'Subscriptions');
  await page.fill('textbox', 'Name of the subscription', 'copy');
  await page.fill('textbox', 'Destinations, separated by commas', 'http://127.0.0.1:1');
  await page.click('button', 'Create');
  await page.shows('d.autogen');
  await page.isAccessible('subscriptions');
  await page.click('button', 'Drop subscription copy');
  await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  await page.shows('None yet.');

  await keepsTheFocus(page);

  await fitTheWindow(page, () => undefined);
  // On a phone nothing is larger than the screen either.
  await page.inner.setViewport({ width: 390, height: 800, isMobile: true, hasTouch: true });
  await fitTheWindow(page, async (name) => {
    assert.deepStrictEqual(await brokenCells(page), [], name);
    await page.isAccessible(`${name} on a phone`);
  });
  // Every page is in its menu, and the theme.
  await page.click('button', 'Menu');
  await page.shows('First steps');
  await page.choose('Theme', 'dark');
  await page.isAccessible('the menu on a phone');
  await page.click('link', 'Storage');
  await page.hides('First steps');
  await page.until('the page', () => document.querySelector('main h1')?.innerText === 'Storage');

  // One finger moves a plot, two zoom it, and there are buttons.
  await page.open('#/query?db=d&from=1451606400000&to=1451610000000');
  await page.offers('d');
  await page.ask('SELECT mean(usage) FROM cpu WHERE $timeFilter GROUP BY time($interval)');
  await page.until('a plot', () => document.querySelector('.plot-frame canvas') !== null);
  await page.evaluate(() => document.querySelector('.plot').scrollIntoView({ block: 'center' }));
  const session = await page.inner.createCDPSession();
  const box = await (await page.inner.waitForSelector('.u-over')).boundingBox();
  const touch = (type, ...shares) =>
    session.send('Input.dispatchTouchEvent', { type, touchPoints: shares.map((share, id) => ({ id, x: box.x + box.width * share, y: box.y + 60 })) });
  const range = async (act) => {
    const before = await page.evaluate(() => location.hash);
    await act();
    await page.until('another range', (before) => location.hash !== before, before);
    const params = new URLSearchParams((await page.evaluate(() => location.hash)).split('?')[1]);
    return { from: Number(params.get('from')), to: Number(params.get('to')) };
  };
  const panned = await range(async () => {
    await touch('touchStart', 0.8);
    for (const share of [0.7, 0.6, 0.5, 0.4, 0.3]) await touch('touchMove', share);
    await touch('touchEnd');
  });
  assert.ok(Math.abs(panned.from - 1451608200000) < 200_000, JSON.stringify(panned));
  assert.ok(Math.abs(panned.to - panned.from - 3_744_000) < 1000, JSON.stringify(panned));
  const pinched = await range(async () => {
    await touch('touchStart', 0.4, 0.6);
    for (const by of [0.05, 0.1, 0.15, 0.2]) await touch('touchMove', 0.4 - by, 0.6 + by);
    await touch('touchEnd');
  });
  assert.ok(Math.abs((panned.to - panned.from) / (pinched.to - pinched.from) - 3) < 0.3, JSON.stringify(pinched));
  const later = await range(() => page.click('button', 'Later'));
  assert.ok(later.from > pinched.from);
}

test(() => drive(steps));
