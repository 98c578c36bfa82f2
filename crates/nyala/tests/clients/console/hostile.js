// Names and values that would be markup or script are text, everywhere.
const assert = require('assert');
const { drive, test } = require('./browser');

const MARKUP = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">';

test(() => drive(async (page) => {
  const unharmed = async (where) => {
    const found = await page.evaluate(() => ({ hacked: window.hacked ?? null, images: document.images.length }));
    assert.deepStrictEqual(found, { hacked: null, images: 0 }, where);
  };
  // A slash is not allowed in the name of a database.
  const database = `d"'${MARKUP.replaceAll('/', '')}`;
  await page.open(`#/explore?db=${encodeURIComponent(database)}`);
  await page.until('the measurement', (name) => [...document.querySelectorAll('.picks button')].some((button) => button.textContent === name), `m "'\\x ${MARKUP}`);
  await unharmed('the list of measurements');
  await page.inner.locator('.picks button').click();
  await page.shows(`f '\\x ${MARKUP.replaceAll('"', '')}`);
  await page.shows(`v "'\\x ${MARKUP}`);
  await unharmed('the explorer');
  await page.isAccessible('the explorer');
  // Quoted as they must be, the names work: the value is plotted.
  await page.inner.locator('.chips button:not(.tag-key)').click();
  await page.shows('1 row');
  await page.until('a plot', () => document.querySelector('.plot-frame canvas') !== null);
  await unharmed('the plot');
  await page.ask('SELECT * FROM /.*/');
  await page.click('radio', 'Table');
  await page.shows(`v "'\\x ${MARKUP}`);
  await unharmed('the table');
  await page.click('radio', 'Line');
  await page.until('a plot', () => document.querySelector('.plot-frame canvas') !== null);
  await unharmed('the legend');
  await page.ask(`SELECT "${MARKUP.replace(/"/g, '\\"')}`);
  await page.shows('error parsing query');
  await unharmed('the error');
  await page.open('#/administration');
  await page.shows(database);
  await unharmed('administration');
  for (const fragment of [`#/query?q=${encodeURIComponent(MARKUP)}&db=${encodeURIComponent(MARKUP)}`, `#/dashboards?db=d&name=${encodeURIComponent(MARKUP)}`, '#/__proto__', '#/query?from=NaN&to=1e99']) {
    await page.open(fragment);
    await page.until('the page', () => document.querySelector('main h1') !== null);
    await unharmed(fragment);
  }
}));
