// A million points: the page goes on drawing frames while they come, draws no more points than it has pixels, and holds no
// more rows than are in sight.
const assert = require('assert');
const { drive, test } = require('./browser');

test(() => drive(async (page) => {
  await page.open('#/query?db=d&from=1451606400000&to=1452606400000');
  await page.offers('d');
  await page.evaluate(() => {
    window.longest = 0;
    let before = performance.now();
    const frame = (now) => {
      window.longest = Math.max(window.longest, now - before);
      before = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  /** No gap between two frames may be a large part of a piece of work: a page that reads or draws at once has one as long as all of it. */
  const begun = Date.now();
  const goesOn = async (what) => {
    const longest = await page.evaluate(() => window.longest);
    const all = Date.now() - begun;
    assert.ok(longest < Math.max(500, all / 4), `no frame for ${longest} ms of ${all}: ${what}`);
  };
  await page.ask('SELECT v FROM many');
  await page.shows('1,000,000 rows');
  await page.until('a plot', () => document.querySelector('.plot-frame')?.dataset.points === '1000000');
  const drawn = await page.evaluate(() => Number(document.querySelector('.plot-frame').dataset.drawn));
  assert.ok(drawn > 500 && drawn < 5000, `${drawn} points drawn`);
  await goesOn('the points came');
  for (const view of ['Area', 'Heat map', 'Bars', 'Table']) {
    await page.click('radio', view);
    await page.until(view, (view) => [...document.querySelectorAll('[role=radio][aria-checked=true]')].some((radio) => radio.innerText === view), view);
    await goesOn(view);
  }
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
