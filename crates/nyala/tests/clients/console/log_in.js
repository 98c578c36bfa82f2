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
  const wrote = await admin("CREATE DATABASE seen; CREATE DATABASE unseen; CREATE USER eve WITH PASSWORD 'eve'; GRANT READ ON seen TO eve");
  assert.ok(!wrote.includes('error'), wrote);
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

  // The log-in ends when the server says so.
  await page.open('#/query?db=seen');
  await page.offers('seen');
  await admin("SET PASSWORD FOR eve = 'another'");
  await page.ask('SHOW MEASUREMENTS');
  await page.shows('no longer accepts this log-in');
  const kept = await page.evaluate(() => JSON.stringify(sessionStorage));
  assert.ok(!kept.includes('Basic'), kept);
  await logIn('eve', 'another');
  await page.until('the page', () => document.querySelector('nav') !== null);
}));
