/** Rows of text in columns, three spaces apart, as kubectl prints them. */
import { showText } from './show-text.ts';

export function showTable(rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(showText));
  const widths: number[] = [];
  for (const row of cells) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cell.length);
  }
  return cells
    .map((row) =>
      row.map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0))).join('   '),
    )
    .map((line) => `${line.trimEnd()}\n`)
    .join('');
}
