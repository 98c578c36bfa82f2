// A server without data: the console leads to a first point, and plots it. Then the same page in the light theme.
const assert = require('assert');
const { drive, test } = require('./browser');

test(() => drive(async (page) => {
  await page.open();
  await page.shows('Write a first point');
  // Nobody has gone anywhere, so nothing is marked as where they are.
  assert.strictEqual((await page.focused())[0], 'BODY');
  await page.isAccessible('the first steps');
  for (const way of ['Telegraf', 'Python', 'curl']) {
    await page.click('radio', way);
    await page.shows(way === 'Telegraf' ? '[[outputs.influxdb]]' : way === 'Python' ? 'InfluxDBClient' : '--data-binary');
  }
  // Points of Telegraf, in a database of their own, can be plotted, too.
  await fetch(`${page.base}query?q=CREATE+DATABASE+telegraf`, { method: 'POST' });
  await fetch(`${page.base}write?db=telegraf`, { method: 'POST', body: 'mem,host=a used=1.5' });
  await page.shows('There are points of “mem” in “telegraf”.');
  await page.click('button', 'Plot “mem”');
  await page.until('a plot', () => document.querySelector('.plot-frame canvas') !== null);
  await page.open('#/start');
  await page.shows('which it creates');
  // Who goes on by keyboard stays where they were, and on a new page begins at its heading.
  const press = async (name) => {
    await (await page.find('button', name).waitHandle()).focus();
    await page.inner.keyboard.press('Enter');
  };
  await press('Write a point');
  await page.shows('1 point is there.');
  assert.deepStrictEqual(await page.focused(), ['BUTTON', 'Write a point']);
  await press('Plot the temperatures');
  await page.shows('1 row');
  await page.until('the focus', () => document.activeElement === document.querySelector('main h1'));
  assert.strictEqual((await page.focused())[0], 'H1');
  await page.until('a plot', () => document.querySelector('.plot-frame canvas') !== null);
  // Each room is a line of its own.
  await page.until('its name', () => document.querySelector('.legend-label')?.innerText === 'kitchen');
  // It can be kept without thinking of a name.
  await page.click('button', 'Save');
  await page.until('names', () => [...document.querySelectorAll('dialog input')].map((input) => input.value).join() === 'home,temperature');
  await page.evaluate(() => document.querySelector('dialog form').requestSubmit());
  await page.until('the panel', () => document.querySelector('.panel canvas') !== null);
  await page.shows('temperature');
  await page.click('link', 'Storage');
  await page.until('the focus', () => document.activeElement.tagName === 'H1' && document.activeElement.innerText === 'Storage');
  await page.choose('Theme', 'light');
  await page.until('the light theme', () => document.documentElement.dataset.theme === 'light');
  await page.isAccessible('light');
}));
