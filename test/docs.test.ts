/** Documents name files, tests and pages that exist. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const pages = ['README.md', 'CONTRIBUTING.md', ...below('docs')].filter((file) => file.endsWith('.md'));

function below(directory: string): string[] {
  return readdirSync(join(root, directory), { recursive: true }).map((name) => join(directory, String(name)));
}

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

test('links between documents lead somewhere', () => {
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)]
      .map(([, link = '']) => link)
      .filter((link) => !existsSync(join(root, dirname(page), link)))
      .map((link) => `${page}: ${link}`),
  );
  assert.deepEqual(broken, []);
});

test('files that documents name exist, but for those of old decisions', () => {
  const rooms = readdirSync(join(root, 'src'), { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? entry.name : [],
  );
  const isFile = new RegExp(
    `^(?:(?:src|test|bench|docs|examples|scripts)/|(?:${rooms.join('|')})/)[\\w./-]+\\.(?:ts|js|md|yaml)$`,
  );
  const missing = pages
    .filter((page) => !/^docs\/decisions\/00(?:0\d|1[0-8])/.test(page)) // a decision is never rewritten
    .flatMap((page) =>
      [...read(page).matchAll(/`([^`\s]+)`/g)]
        .map(([, name = '']) => name)
        .filter((name) => isFile.test(name) && !existsSync(join(root, name)) && !existsSync(join(root, 'src', name)))
        .map((name) => `${page}: ${name}`),
    );
  assert.deepEqual(missing, []);
});

test('every answer in how-it-works names code and a test that has that title', () => {
  const answers = read('docs/how-it-works.md').split(/^## /m).slice(1);
  assert.ok(answers.length >= 9);
  for (const answer of answers) {
    const [question = ''] = answer.split('\n');
    assert.match(answer, /^- does it: `src\//m, question);
    const shown = /^- shows it: (.*)$/m.exec(answer)?.[1] ?? '';
    const file = /in `([^`]+)`/.exec(shown)?.[1] ?? '';
    const titles = [...shown.matchAll(/"([^"]+)"/g)].map(([, title = '']) => title);
    assert.ok(titles.length > 0, question);
    for (const title of titles) assert.ok(read(file).includes(title), `${question}: ${file} has no test "${title}"`);
  }
});
