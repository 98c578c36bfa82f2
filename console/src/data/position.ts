// Where an error of the server stands in a text. The server counts characters; texts of the page, and its editor, are counted in
// units of UTF-16, of which characters beyond U+FFFF have two.

/** How many units the first characters of a text are. */
export function unitsOf(text: string, characters: number): number {
  let units = 0;
  for (let left = characters; left > 0 && units < text.length; left--) units += text.codePointAt(units)! > 0xffff ? 2 : 1;
  return units;
}

/** The unit that a line and a character in it mean, both from 1. */
export function unitAt(text: string, line: number, character: number): number {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return before + unitsOf(lines[line - 1] ?? "", character - 1);
}
