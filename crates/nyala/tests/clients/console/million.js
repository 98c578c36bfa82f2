// A million points, of one series, of ten and of sixty: no task of the page's thread takes long while they come and while they are
// moved, the page draws no more points than it has pixels, and holds no more rows than are in sight. With NYALA_CONSOLE_TIMES in the
// environment it says how long they take.
const assert = require('assert');
const { drive, test } = require('./browser');

const BEGIN_S = 1451606400;
const QUERY = '#/query?db=d&from=1451606400000&to=1452606400000';
const POINTS = 1_000_000;
const SERIES = { h: 10, s: 6 };

/** A task must not have the processor for longer. Whoever drags, or types, hardly notices less. */
const TASK_MS = 200;
/** On a slow machine, no longer than this many times what passes over all points take there. */
const YARDSTICKS = 4;
/** What the browser does on its own, such as collecting garbage, may come between once. */
const TRIES = 3;

/** Sixty series that go up and down from each point to the next, each at times of its own: lines through them cost most. */
async function writeSixty(base) {
  let state = 1;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const lines = [];
  const write = async () => {
    const { status } = await fetch(`${base}write?db=d`, { method: 'POST', body: lines.splice(0).join('\n') });
    assert.strictEqual(status, 204);
  };
  for (let i = 0; i < POINTS; i++) {
    const series = i % (SERIES.h * SERIES.s);
    lines.push(`noisy,h=h${series % SERIES.h},s=s${Math.floor(series / SERIES.h)} v=${(100 * random()).toFixed(2)} ${BEGIN_S + i}000000000`);
    if (lines.length === 50_000) await write();
  }
}

/** How long this machine takes, at this moment, to pass over a million points four times. */
const yardstickMs = (page) =>
  page.longestTask(() =>
    page.evaluate((points) => {
      const [times, values] = [new Float64Array(points), new Float64Array(points)];
      for (let i = 0, state = 1; i < points; i++) {
        times[i] = i;
        values[i] = state = (state * 48271) % 2147483647;
      }
      const [lowest, highest] = [new Float64Array(1000).fill(Infinity), new Float64Array(1000).fill(-Infinity)];
      for (let pass = 0; pass < 3; pass++) {
        for (let i = 0; i < points; i++) {
          const column = Math.floor((times[i] / points) * 1000);
          if (values[i] < lowest[column]) lowest[column] = values[i];
          if (values[i] > highest[column]) highest[column] = values[i];
        }
      }
      return lowest[0] + highest[0];
    }, POINTS),
  );

/** Does something, and waits until what it caused is drawn: no task may have taken long. */
async function isSmooth(page, what, act) {
  const tries = [];
  while (tries.length < TRIES) {
    const task = await page.longestTask(async () => {
      await act();
      await new Promise((resolve) => setTimeout(resolve, 500));
    });
    const bound = Math.max(TASK_MS, YARDSTICKS * (await yardstickMs(page)));
    tries.push(`${task.toFixed()} of ${bound.toFixed()}`);
    if (process.env.NYALA_CONSOLE_TIMES !== undefined) console.log(what, tries.at(-1));
    if (task <= bound) return;
  }
  assert.fail(`a task had the processor for so many ms: ${what}: ${tries.join(', ')}`);
}

async function plots(page, query, words) {
  await isSmooth(page, `the points of ${words} come`, async () => {
    await page.evaluate(() => delete document.querySelector('.plot-frame')?.dataset.points);
    await page.ask(query);
    await page.shows(words);
    await page.until('a plot', (points) => document.querySelector('.plot-frame')?.dataset.points === String(points), POINTS);
  });
  const drawn = await page.evaluate(() => Number(document.querySelector('.plot-frame').dataset.drawn));
  assert.ok(drawn > 500 && drawn < 5000, `${drawn} points drawn of ${words}`);
}

/** Whatever moves a plot. */
async function movesSmoothly(page, view) {
  const { x, y, width } = await page.evaluate(() => document.querySelector('.u-over').getBoundingClientRect().toJSON());
  const { mouse, keyboard } = page.inner;
  const hover = async () => {
    for (let i = 1; i <= 4; i++) await mouse.move(x + 60 * i, y + 40 * i);
  };
  const drag = async () => {
    await mouse.move(x + width * 0.2, y + 50);
    await mouse.down();
    await mouse.move(x + width * 0.8, y + 60, { steps: 4 });
    await mouse.up();
  };
  const moveAside = async () => {
    await keyboard.down('Shift');
    await drag();
    await keyboard.up('Shift');
  };
  const key = (name) => async () => {
    await page.inner.focus('.plot-frame');
    await keyboard.press(name);
  };
  for (const [what, act] of [['hover', hover], ['zoom', key('+')], ['move', key('ArrowRight')], ['all', key('0')], ['drag', drag], ['move by hand', moveAside]]) {
    await isSmooth(page, `${what} of ${view}`, act);
  }
  await key('0')();
}

test(() => drive(async (page, base) => {
  await page.open(QUERY);
  await page.offers('d');
  await plots(page, 'SELECT v FROM many', '1,000,000 rows');
  for (const view of ['Area', 'Heat map', 'Bars', 'Table']) {
    await isSmooth(page, view, async () => {
      await page.click('radio', 'Value');
      await page.click('radio', view);
    });
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

  await writeSixty(base);
  await page.open(QUERY);
  await page.offers('d');
  for (const [tags, words] of [['h', '10 series'], ['h, s', '60 series']]) {
    await plots(page, `SELECT v FROM noisy GROUP BY ${tags}`, words);
    await movesSmoothly(page, `the lines of ${words}`);
    await page.click('radio', 'Area');
    await movesSmoothly(page, `the areas of ${words}`);
    await page.click('radio', 'Line');
  }
}));
