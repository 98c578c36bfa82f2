// A million points: the page goes on drawing frames while they come, draws no more points than it has pixels, and holds no
// more rows than are in sight.
const assert = require('assert');
const { drive, test } = require('./browser');

test(() => drive(async (page) => {
  await page.open('#/query?db=d&from=1451606400000&to=1452606400000');
  await page.offers('d');
  await page.evaluate(() => {
    window.frames_ = 0;
    const count = () => requestAnimationFrame(() => (window.frames_++, count()));
    count();
  });
  await page.ask('SELECT v FROM many');
  await page.shows('1,000,000 rows');
  await page.until('a plot', () => document.querySelector('.plot-frame')?.dataset.points === '1000000');
  const { drawn, frames } = await page.evaluate(() => ({ drawn: Number(document.querySelector('.plot-frame').dataset.drawn), frames: window.frames_ }));
  assert.ok(drawn > 500 && drawn < 5000, `${drawn} points drawn`);
  assert.ok(frames > 10, `${frames} frames while the points came`);
  for (const view of ['Area', 'Heat map', 'Bars']) await page.click('radio', view);
  await page.click('radio', 'Table');
  await page.until('rows', () => document.querySelectorAll('.grid-body [role=row]').length > 5);
  const rows = await page.evaluate(() => document.querySelectorAll('[role=row]').length);
  assert.ok(rows < 100, `${rows} rows in the page`);
  await page.evaluate(() => {
    const grid = document.querySelector('.grid');
    grid.scrollTop = grid.scrollHeight;
  });
  await page.until('the last row', () => [...document.querySelectorAll('.grid-body [role=row]')].at(-1)?.getAttribute('aria-rowindex') === '1000001');
  await page.until('its cells', () => [...document.querySelectorAll('.grid-body [role=cell]')].at(-1)?.textContent === '999999');
}));
