// A server with authentication: the first administrator, a user who sees only what she may, a log-in that ends.
const assert = require('assert');
const { drive, test } = require('./browser');

const SECRET = 'pass <phrase> ü';

test(() => drive(async (page) => {
  const logIn = async (user, password) => {
    await page.fill('textbox', 'User', user);
    await page.inner.locator('input[name=password]').fill(password);
    await page.evaluate(() => document.querySelector('form').requestSubmit());
  };
  const admin = (query) =>
    fetch(`${page.base}query`, {
      method: 'POST',
      headers: { Authorization: `Basic ${Buffer.from(`root:${SECRET}`).toString('base64')}` },
      body: new URLSearchParams({ q: query }),
    }).then((response) => response.text());
  await page.open();
  await page.shows('Create the first administrator');
  await page.isAccessible('the first administrator');
  await logIn('root', SECRET);
  await page.shows('Administration');
  const users = ['eve', 'wes', 'ann', 'bob'].map((user) => `CREATE USER ${user} WITH PASSWORD '${user}'`).join('; ');
  const wrote = await admin(`CREATE DATABASE seen; CREATE DATABASE unseen; ${users}; GRANT READ ON seen TO eve; GRANT WRITE ON seen TO wes; GRANT ALL ON seen TO ann`);
  assert.ok(!wrote.includes('error'), wrote);
  /** What the server has refused because of missing rights: each such request is a line of the audit log. */
  const refused = [];
  page.inner.on('response', (response) => {
    if (response.status() === 403) refused.push(`${response.url()} ${response.request().postData()}`);
  });
  // The tab keeps the log-in, and no other place has the password.
  await page.open('#/query');
  await page.shows('Administration');
  await page.offers('unseen');
  const stored = await page.evaluate(() => JSON.stringify(localStorage) + location.href);
  assert.ok(!stored.includes('pass'), stored);
  assert.deepStrictEqual(page.urls.filter((url) => url.includes('pass') || url.includes('u=')), []);

  await page.click('button', 'Log out');
  await page.shows('You have logged out.');
  await page.isAccessible('the log-in');
  await logIn('eve', 'wrong');
  await page.shows('authorization failed');
  await logIn('eve', 'eve');
  await page.until('the page', () => document.querySelector('nav') !== null);
  await page.open('#/query');
  await page.offers('seen');
  const words = await page.text();
  for (const hidden of ['Administration', 'Activity', 'Storage', 'unseen']) assert.ok(!words.includes(hidden), `${hidden} in ${words}`);
  await page.open('#/administration');
  await page.until('another page', () => document.querySelector('nav') !== null);
  assert.ok(!(await page.text()).includes('New database'));

  // A reader sees dashboards, but nothing that would change them.
  const sql = (body) => fetch(`${page.base}api/sql?db=seen`, { method: 'POST', headers: { Authorization: `Basic ${Buffer.from(`root:${SECRET}`).toString('base64')}` }, body });
  await sql('CREATE TABLE nyala_dashboards (name text PRIMARY KEY, version bigint NOT NULL, definition text NOT NULL)');
  const definition = JSON.stringify({ panels: [{ title: 'Words', language: 'sql', text: 'SELECT 42 AS answer', view: 'table', size: 'half' }], range: {} });
  await sql(`INSERT INTO nyala_dashboards VALUES ('All', 1, '${definition}')`);
  await page.open('#/dashboards?db=seen');
  await page.shows('1 panel');
  await page.open('#/dashboards?db=seen&name=All');
  await page.shows('42');
  await page.open('#/query?db=seen&q=SHOW+MEASUREMENTS');
  await page.offers('seen');
  const offered = async () => (await page.evaluate(() => [...document.querySelectorAll('button')].map((button) => button.innerText))).join();
  assert.ok(!/Edit|New dashboard|Save/.test(await offered()), await offered());

  // The first steps of who may write, only write, only read, or nothing.
  const asUser = async (user) => {
    await page.click('button', 'Log out');
    await logIn(user, user);
    await page.until('the page', () => document.querySelector('nav') !== null);
  };
  await page.open('#/start');
  await page.shows('Your user may read “seen”, but write nowhere.');
  await page.shows('GRANT ALL ON "seen" TO "eve"');
  await page.isAccessible('the first steps of a reader');
  await asUser('wes');
  await page.open('#/start');
  await page.shows('Your user may write to “seen”, but not read it');
  await page.click('button', 'Write a point');
  await page.shows('Written:');
  for (const fragment of ['#/explore?db=seen', '#/dashboards?db=seen']) {
    await page.open(fragment);
    await page.shows('Ask an administrator for GRANT READ ON "seen" TO "wes"');
  }
  await asUser('bob');
  await page.open('#/start');
  await page.shows('Your user has no grant');
  await page.shows('CREATE DATABASE "home"; GRANT ALL ON "home" TO "bob"');
  await page.open('#/query');
  await page.shows('Your user “bob” has no grant');
  await page.isAccessible('a user without grants');
  // What is granted meanwhile is noticed.
  await page.open('#/start');
  await page.shows('Your user has no grant');
  await admin('GRANT ALL ON seen TO bob');
  await page.hides('Your user has no grant');
  await asUser('ann');
  await page.open('#/start');
  await page.shows('1 point is there.');
  await page.click('button', 'Write a point');
  await page.shows('2 points are there.');
  await page.click('button', 'Plot the temperatures');
  await page.shows('2 rows');
  await page.open('#/dashboards?db=seen');
  await page.shows('New dashboard');
  await page.open('#/dashboards?db=seen&name=All');
  await page.click('button', 'Edit');
  assert.deepStrictEqual(refused, []);
  await asUser('eve');

  // The log-in ends when the server says so.
  await page.open('#/query?db=seen');
  await page.offers('seen');
  // Whatever the page asks on its own has been answered, so the next statement is the first that is refused.
  for (let i = 0, sent = -1; sent < page.sent.length || (page.waiting.size > 0 && i < 60); i++) {
    sent = page.sent.length;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  await admin("SET PASSWORD FOR eve = 'another'");
  await page.ask('SHOW MEASUREMENTS');
  await page.shows('no longer accepts this log-in');
  const kept = await page.evaluate(() => JSON.stringify(sessionStorage));
  assert.ok(!kept.includes('Basic'), kept);
  await logIn('eve', 'another');
  await page.until('the page', () => document.querySelector('nav') !== null);
}));
