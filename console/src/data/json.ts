// Reads JSON exactly: `JSON.parse` rounds integers beyond 2^53, and times in nanoseconds are larger. Such integers become
// bigint here. Everything else is what JSON.parse makes of it.

const SAFE_DIGITS = 15;

/** The value that a text holds. Throws a SyntaxError if it is no JSON. */
export function parse(text: string): unknown {
  const reader = new Reader(text);
  const value = reader.value();
  reader.end();
  return value;
}

class Reader {
  private at = 0;
  /** The first backslash behind the strings that were read, or the end: looking for it at each string would read a long line again and again. */
  private escape = -1;

  constructor(private readonly text: string) {}

  value(): unknown {
    this.space();
    switch (this.text.charCodeAt(this.at)) {
      case 0x5b:
        return this.array();
      case 0x7b:
        return this.object();
      case 0x22:
        return this.string();
      case 0x74:
        return this.word("true", true);
      case 0x66:
        return this.word("false", false);
      case 0x6e:
        return this.word("null", null);
      default:
        return this.number();
    }
  }

  end(): void {
    this.space();
    if (this.at < this.text.length) this.fail();
  }

  private array(): unknown[] {
    const items: unknown[] = [];
    this.at++;
    if (this.closes(0x5d)) return items;
    for (;;) {
      items.push(this.value());
      if (this.closes(0x5d)) return items;
      this.expect(0x2c);
    }
  }

  private object(): Record<string, unknown> {
    // A name such as __proto__ is a name like any other.
    const members: Record<string, unknown> = Object.create(null);
    this.at++;
    if (this.closes(0x7d)) return members;
    for (;;) {
      this.space();
      if (this.text.charCodeAt(this.at) !== 0x22) this.fail();
      const name = this.string();
      this.space();
      this.expect(0x3a);
      members[name] = this.value();
      if (this.closes(0x7d)) return members;
      this.expect(0x2c);
    }
  }

  private string(): string {
    const begin = this.at;
    let end = this.text.indexOf('"', begin + 1);
    if (this.escape < begin) {
      const found = this.text.indexOf("\\", begin);
      this.escape = found < 0 ? this.text.length : found;
    }
    if (end >= 0 && this.escape > end) {
      this.at = end + 1;
      return this.text.slice(begin + 1, end);
    }
    for (end = begin + 1; this.text.charCodeAt(end) !== 0x22; end++) {
      if (end >= this.text.length) this.fail();
      if (this.text.charCodeAt(end) === 0x5c) end++;
    }
    this.at = end + 1;
    return JSON.parse(this.text.slice(begin, end + 1)) as string;
  }

  private number(): number | bigint {
    const begin = this.at;
    let isInteger = true;
    for (; ; this.at++) {
      const code = this.text.charCodeAt(this.at);
      if ((code >= 0x30 && code <= 0x39) || code === 0x2d) continue;
      if (code !== 0x2e && code !== 0x65 && code !== 0x45 && code !== 0x2b) break;
      isInteger = false;
    }
    if (this.at === begin) this.fail();
    const digits = this.text.slice(begin, this.at);
    if (isInteger && digits.length > SAFE_DIGITS) {
      const exact = BigInt(digits);
      const near = Number(exact);
      return Number.isSafeInteger(near) ? near : exact;
    }
    return Number(digits);
  }

  private word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) this.fail();
    this.at += word.length;
    return value;
  }

  private space(): void {
    while (this.at < this.text.length && this.text.charCodeAt(this.at) <= 0x20) this.at++;
  }

  private closes(code: number): boolean {
    this.space();
    if (this.text.charCodeAt(this.at) !== code) return false;
    this.at++;
    return true;
  }

  private expect(code: number): void {
    if (this.text.charCodeAt(this.at) !== code) this.fail();
    this.at++;
  }

  private fail(): never {
    throw new SyntaxError(`the answer is no JSON at character ${this.at}`);
  }
}
