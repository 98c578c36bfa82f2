// Pixels of a plot, drawn without the browser: it takes half a second for sixty lines that go up and down, because it sorts the
// edges of each; upright spans of pixels need no sorting. They lie together in memory: a column after the other.


/** Pixels at each edge beyond the plot, for what is thick there. */
const EDGE = 4;
/** Rows and columns are exchanged in squares that fit the cache. */
const SQUARE = 16;

export class Raster {
  readonly width: number;
  readonly height: number;
  private readonly left: number;
  private readonly top: number;
  private readonly columns: Uint32Array;

  /** Of a part of a canvas, in its pixels. */
  constructor(box: { left: number; top: number; width: number; height: number }) {
    this.left = Math.floor(box.left) - EDGE;
    this.top = Math.floor(box.top) - EDGE;
    this.width = Math.ceil(box.width) + 2 * EDGE;
    this.height = Math.ceil(box.height) + 2 * EDGE;
    this.columns = new Uint32Array(this.width * this.height);
  }

  /** Where a place of the canvas is here. */
  x = (canvasX: number) => canvasX - this.left;
  y = (canvasY: number) => canvasY - this.top;

  /** Colours whole pixels, whatever was there. */
  fill(column: number, from: number, to: number, color: number): void {
    const [first, last] = from < to ? [from, to] : [to, from];
    const begin = Math.min(Math.max(Math.round(first), 0), this.height);
    const end = Math.min(Math.max(Math.round(last), begin), this.height);
    this.columns.fill(color, column * this.height + begin, column * this.height + end);
  }

  /** Draws an opaque span over what is there; its ends cover parts of pixels. */
  span(column: number, from: number, to: number, color: number): void {
    const top = Math.max(from, 0);
    const bottom = Math.min(to, this.height);
    if (!(top < bottom)) return;
    const begin = column * this.height;
    const first = Math.ceil(top);
    const last = Math.floor(bottom);
    if (first > last) return this.blend(begin + last, color, bottom - top);
    if (first > top) this.blend(begin + first - 1, color, first - top);
    this.columns.fill(color, begin + first, begin + last);
    if (bottom > last) this.blend(begin + last, color, bottom - last);
  }

  /** The pixels, row after row. */
  rows(): Uint32Array {
    const { width, height, columns } = this;
    const rows = new Uint32Array(width * height);
    for (let left = 0; left < width; left += SQUARE) {
      const right = Math.min(left + SQUARE, width);
      for (let top = 0; top < height; top += SQUARE) {
        const bottom = Math.min(top + SQUARE, height);
        for (let x = left; x < right; x++) for (let y = top; y < bottom; y++) rows[y * width + x] = columns[x * height + y];
      }
    }
    return rows;
  }

  /** Puts the pixels over what is on the canvas. */
  draw(context: CanvasRenderingContext2D): void {
    const { width, height } = this;
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    canvas.getContext("2d")!.putImageData(new ImageData(new Uint8ClampedArray(this.rows().buffer as ArrayBuffer), width, height), 0, 0);
    context.drawImage(canvas, this.left, this.top);
  }

  private blend(at: number, color: number, share: number): void {
    const under = this.columns[at];
    const below = (under >>> 24) * (1 - share);
    const above = (color >>> 24) * share;
    const alpha = below + above;
    if (alpha <= 0) return;
    const part = (shift: number) => Math.round((((under >>> shift) & 255) * below + ((color >>> shift) & 255) * above) / alpha) << shift;
    this.columns[at] = (Math.round(alpha) << 24) | part(16) | part(8) | part(0);
  }
}

