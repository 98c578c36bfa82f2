// The server goes and comes back: the page says so, and goes on. The test that started this stops the server when this
// prints "stop", and starts it again when it prints "start".
const { drive, test } = require('./browser');

test(() => drive(async (page) => {
  await page.open('#/query?db=d');
  await page.offers('d');
  await page.ask('SELECT usage FROM cpu LIMIT 3');
  await page.shows('3 rows');
  await page.click('link', 'Activity');
  await page.shows('ready for queries and writes');
  console.log('stop');
  await page.until('the server to be gone', async () => {
    try {
      await fetch('/ping', { cache: 'no-store' });
      return false;
    } catch {
      return true;
    }
  });
  await page.shows('The server does not answer');
  // What was known of it is not known any more.
  await page.shows('health not known');
  await page.hides('ready for queries and writes');
  await page.isAccessible('the activity of a server that is gone');
  await page.evaluate(() => (location.hash = '#/query?db=d'));
  await page.ask('SELECT usage FROM cpu LIMIT 4');
  await page.isAccessible('the server gone');
  console.log('start');
  await page.hides('The server does not answer');
  await page.ask('SELECT usage FROM cpu LIMIT 5');
  await page.shows('5 rows');
}));
