// A real browser that a test drives through the console: finds things by role and name as people do, and fails a test
// whose page logs an error, breaks its security policy, or does not pass axe's checks.
const assert = require('assert');
const puppeteer = require('puppeteer-core');
const axeSource = require('axe-core').source;

/** Longer than anything takes on a slow and busy machine. */
const LIMIT_MS = 120000;

/** Opens a browser, runs the steps with a page of it, and closes it. */
async function drive(steps, { theme = 'dark', width = 1280, height = 800 } = {}) {
  const [host, port] = process.argv.slice(2);
  const base = `http://${host}:${port}/`;
  // Root needs --no-sandbox; nothing but the console is opened. /dev/shm is small in containers.
  const args = ['--no-sandbox', '--disable-dev-shm-usage', '--force-prefers-reduced-motion', '--lang=en-GB'];
  const executablePath = process.env.NYALA_CHROMIUM || '/usr/bin/chromium';
  const browser = await puppeteer.launch({ executablePath, headless: true, timeout: LIMIT_MS, protocolTimeout: 2 * LIMIT_MS, args });
  try {
    const page = new Page(await browser.newPage(), base);
    await page.prepare(theme, width, height);
    await steps(page, base);
    assert.deepStrictEqual(page.faults, []);
  } finally {
    await browser.close();
  }
}

class Page {
  constructor(inner, base) {
    this.inner = inner;
    this.base = base;
    this.faults = [];
    this.urls = [];
    /** The same with what was sent. */
    this.sent = [];
    /** Requests of the page that were not answered yet. */
    this.waiting = new Set();
  }

  async prepare(theme, width, height) {
    const { inner } = this;
    inner.setDefaultTimeout(LIMIT_MS);
    await inner.setViewport({ width, height });
    await inner.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
    await inner.evaluateOnNewDocument(() => {
      addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
    });
    inner.on('console', (message) => {
      // Chromium logs each response of an error, which the page handles.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) this.faults.push(message.text());
    });
    inner.on('pageerror', (error) => this.faults.push(String(error.stack)));
    inner.on('dialog', (dialog) => {
      this.faults.push(`a dialog of the browser: ${dialog.message()}`);
      dialog.dismiss();
    });
    inner.on('request', (request) => {
      this.urls.push(request.url());
      this.sent.push({ url: request.url(), body: request.postData() ?? '' });
      this.waiting.add(request);
    });
    inner.on('requestfinished', (request) => this.waiting.delete(request));
    inner.on('requestfailed', (request) => this.waiting.delete(request));
  }

  async open(fragment = '') {
    // A change of the fragment alone is no navigation, and would not load the page again.
    await this.inner.goto('about:blank');
    this.waiting.clear();
    await this.inner.goto(this.base + fragment);
  }

  find(role, name) {
    return this.inner.locator(`::-p-aria([role="${role}"][name="${name}"])`);
  }

  async click(role, name) {
    await this.find(role, name).click();
  }

  async fill(role, name, text) {
    await this.find(role, name).fill(text);
  }

  /** Chooses an option of a list by its value. */
  async choose(name, value) {
    const handle = await this.find('combobox', name).waitHandle();
    await handle.select(value);
  }

  /** Replaces the query. */
  async edit(text) {
    await this.inner.locator('>>> .cm-content').click();
    await this.inner.keyboard.down('Control');
    await this.inner.keyboard.press('a');
    await this.inner.keyboard.up('Control');
    await this.inner.keyboard.press('Delete');
    await this.inner.keyboard.sendCharacter(text);
  }

  /** Types a query and runs it with the keyboard. */
  async ask(text) {
    await this.edit(text);
    await this.inner.keyboard.down('Control');
    await this.inner.keyboard.press('Enter');
    await this.inner.keyboard.up('Control');
  }

  /** The words of the page. */
  text() {
    return this.inner.evaluate(() => document.body.innerText);
  }

  async shows(words) {
    await this.until(`“${words}”`, (words) => document.body.innerText.includes(words), words);
  }

  async hides(words) {
    await this.until(`no “${words}”`, (words) => !document.body.innerText.includes(words), words);
  }

  /** Waits until something is true in the page. */
  async until(what, condition, ...parameters) {
    try {
      await this.inner.waitForFunction(condition, { timeout: LIMIT_MS, polling: 50 }, ...parameters);
    } catch (error) {
      const html = await this.text().catch(() => '');
      throw new Error(`waited for ${what}, in vain: ${error.message}\n${html}`);
    }
  }

  /** Waits until a list offers something, such as a database. */
  async offers(value) {
    await this.until(`the choice ${value}`, (value) => [...document.querySelectorAll('option')].some((option) => option.value === value), value);
  }

  evaluate(...parameters) {
    return this.inner.evaluate(...parameters);
  }

  /**
   * How long the longest task of the page's thread has had the processor while something was done, in milliseconds. It does not
   * count how long the thread has waited for its turn, so it hardly depends on what else the machine does.
   */
  async longestTask(act) {
    const { tracing } = this.inner;
    await tracing.start({ categories: ['disabled-by-default-devtools.timeline'] });
    await act();
    const { traceEvents } = JSON.parse(Buffer.from(await tracing.stop()).toString());
    const threadOf = ({ pid, tid }) => `${pid} ${tid}`;
    const pages = new Set(traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(threadOf));
    const tasks = traceEvents.filter((event) => event.tdur !== undefined && pages.has(threadOf(event)));
    assert.ok(tasks.length > 0, 'a trace without tasks');
    return tasks.reduce((longest, { tdur }) => Math.max(longest, tdur), 0) / 1000;
  }

  /** What has the keyboard's focus: its element and first line. */
  focused() {
    return this.evaluate(() => [document.activeElement.tagName, document.activeElement.innerText.split('\n')[0]]);
  }

  /** Axe's checks of WCAG 2.2 AA, and its best practices. */
  async isAccessible(where) {
    // Axe is given to the debugger, not to the page, whose policy refuses it.
    await this.evaluate(axeSource);
    const violations = await this.evaluate(async () => {
      const { violations } = await axe.run(document, { resultTypes: ['violations'] });
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html.slice(0, 160)} ${node.failureSummary}`).join('\n')}`);
    });
    assert.deepStrictEqual(violations, [], where);
  }
}

/** Runs a test, and ends the process as it went. */
function test(steps) {
  steps().then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

module.exports = { drive, test };
