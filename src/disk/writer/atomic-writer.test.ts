import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import * as fc from 'fast-check';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { liveVersion, namesIn, visibleFiles } from '../../testing/worlds/volume-node.ts';
import { AtomicWriter } from './atomic-writer.ts';
import type { Payload } from './payload.ts';
import { VolumeWriteError } from './version.ts';

/** Values are contents, with the mode in front where it matters: `0400 text`. */
function payloadOf(files: Readonly<Record<string, string>>): Payload {
  return new Map(
    Object.entries(files).map(([path, value]) => {
      const [, mode, text] = /^(?:(0[0-7]{3}) )?([^]*)$/.exec(value) ?? [];
      return [path, { data: Buffer.from(text ?? '', 'latin1'), mode: mode === undefined ? 0o644 : parseInt(mode, 8) }];
    }),
  );
}

function large(fill: number): Payload {
  return new Map([['d/a', { data: Buffer.alloc(1 << 20, fill), mode: 0o644 }]]);
}

function modeOf(path: string): string {
  return (statSync(path).mode & 0o7777).toString(8).padStart(4, '0');
}

/** The inode of every name in the volume: what must not change when nothing is written. */
function inodesIn(volume: string): Record<string, string> {
  const entries = readdirSync(volume, { recursive: true }).map(String).sort();
  return Object.fromEntries(
    ['', ...entries].map((name) => {
      const { ino, ctimeMs, mtimeMs } = lstatSync(join(volume, name));
      return [name, `${ino} ${ctimeMs} ${mtimeMs}`];
    }),
  );
}

function namesBelow(volume: string): string[] {
  return readdirSync(volume, { recursive: true }).map(String).sort();
}

const fileSystems = [tmpdir(), '/dev/shm'].filter((directory) => existsSync(directory));

for (const under of fileSystems) {
  const volumeIn = (t: TestContext): string => temporaryDirectory(t, under);

  test(`a missing directory fails construction, an existing one does not (${under})`, (t) => {
    const volume = volumeIn(t);
    assert.doesNotThrow(() => new AtomicWriter(volume));
    assert.throws(() => new AtomicWriter(join(volume, 'missing')), {
      message: `stat ${join(volume, 'missing')}: no such file or directory`,
      code: 'ENOENT',
      reason: 'VolumeWriteFailed',
    });
    writeFileSync(join(volume, 'file'), '');
    // Any other error is reported by the first write.
    const writer = new AtomicWriter(join(volume, 'file/below'));
    assert.throws(() => writer.write(new Map()), { code: 'ENOTDIR' });
  });

  test(`one bad path leaves the volume untouched (${under})`, (t) => {
    const volume = volumeIn(t);
    const writer = new AtomicWriter(volume);
    for (const bad of ['..sneaky', '.', 'a/..', 'good/below'])
      assert.throws(() => writer.write(payloadOf({ good: 'x', [bad]: 'y' })), /^InvalidPayloadPathError/);
    assert.deepEqual(readdirSync(volume), []);
    writer.write(payloadOf({ good: 'x' }));
    const before = inodesIn(volume);
    assert.throws(() => writer.write(payloadOf({ good: 'y', '..': 'z' })), /^InvalidPayloadPathError/);
    assert.deepEqual(inodesIn(volume), before);
  });

  const sequences: readonly { it: string; payloads: readonly Record<string, string>[]; links: readonly string[] }[] = [
    {
      it: 'unclean paths are stored clean',
      payloads: [{ 'foo////bar': '1', 'bar///bar/zab.txt': '2', './baz': '3' }],
      links: ['bar', 'baz', 'foo'],
    },
    {
      it: 'binary content and one content under several names',
      payloads: [{ a: '\0\xff\xfe\n', b: '\0\xff\xfe\n', c: '' }],
      links: ['a', 'b', 'c'],
    },
    { it: 'a file in a new deep directory', payloads: [{ a: '1' }, { a: '1', 'x/y/z': '2' }], links: ['a', 'x'] },
    { it: 'a file in an existing directory', payloads: [{ 'd/a': '1' }, { 'd/a': '1', 'd/b': '2' }], links: ['d'] },
    { it: 'a file at the top', payloads: [{ 'd/a': '1' }, { 'd/a': '1', b: '2' }], links: ['b', 'd'] },
    { it: 'the only file of a directory goes', payloads: [{ 'd/a': '1', b: '2' }, { b: '2' }], links: ['b'] },
    {
      it: 'one of several files of a directory goes',
      payloads: [{ 'd/a': '1', 'd/b': '2' }, { 'd/b': '2' }],
      links: ['d'],
    },
    { it: 'all files go', payloads: [{ 'd/a': '1', b: '2' }, {}], links: [] },
    { it: 'nothing at all is written', payloads: [{}], links: [] },
    {
      it: 'all files are replaced by others',
      payloads: [
        { a: '1', 'd/b': '2' },
        { c: '3', 'e/f/g': '4' },
      ],
      links: ['c', 'e'],
    },
    {
      it: 'a directory becomes a file',
      payloads: [
        { 'bar/zib////zib/zab.txt': '1' },
        { 'bar/zib/zab.txt': '2' },
        { 'bar/zib': '3' },
        { bar: '4' },
        { 'bar/zib': '5' },
      ],
      links: ['bar'],
    },
    {
      it: 'directories empty at every depth go, used ones stay',
      payloads: [{ 'zip/1/2/3': '1', 'zip/1/4': '2', 'zip/5/6/7': '3' }, { 'zip/1/4': '2' }],
      links: ['zip'],
    },
    {
      it: 'links are first elements only',
      payloads: [{ 'foo/bar': '1', 'foo/baz/txt': '2', 'bar/txt': '3' }],
      links: ['bar', 'foo'],
    },
  ];
  for (const { it, payloads, links } of sequences) {
    test(`${it} (${under})`, (t) => {
      const volume = volumeIn(t);
      const writer = new AtomicWriter(volume);
      for (const files of payloads) {
        const { changed, version } = writer.write(payloadOf(files));
        assert.equal(changed, true);
        assert.equal(liveVersion(volume), version);
        assert.match(version, /^\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+$/);
        const clean = Object.entries(files).map(([path, text]) => [join(path), text]);
        assert.deepEqual(visibleFiles(volume), Object.fromEntries(clean.sort()));
        assert.equal(modeOf(join(volume, version)), '0755');
      }
      assert.deepEqual(namesIn(volume), ['..data', '<version>', ...links].sort());
    });
  }

  test(`each file has exactly its mode whatever the umask (${under})`, (t) => {
    const volume = volumeIn(t);
    const before = process.umask(0o077);
    t.after(() => process.umask(before));
    const modes = ['0777', '0400', '0407', '0440', '0666', '0000', '0644'];
    new AtomicWriter(volume).write(payloadOf(Object.fromEntries(modes.map((mode) => [`d/${mode}`, `${mode} x`]))));
    for (const mode of modes) assert.equal(modeOf(join(volume, 'd', mode)), mode);
    // The kubelet leaves these to the umask; then only root could pass.
    assert.equal(modeOf(join(volume, 'd')), '0755');
  });

  test(`modes change with content, and alone (${under})`, (t) => {
    const volume = volumeIn(t);
    const writer = new AtomicWriter(volume);
    for (const [content, mode] of [
      ['1', '0644'],
      ['2', '0400'],
      ['3', '0600'],
      ['3', '0644'],
      ['3', '0640'],
    ] as const) {
      assert.equal(writer.write(payloadOf({ a: `${mode} ${content}` })).changed, true);
      assert.equal(readFileSync(join(volume, 'a'), 'utf8'), content);
      assert.equal(modeOf(join(volume, 'a')), mode);
      assert.equal(new AtomicWriter(volume).write(payloadOf({ a: `${mode} ${content}` })).changed, false);
    }
  });

  test(`the same payload again changes no inode, whichever writer writes it (${under})`, (t) => {
    const volume = volumeIn(t);
    const payload = payloadOf({ a: '1', 'd/b': '2', 'd/e/c': '3' });
    const writer = new AtomicWriter(volume);
    const first = writer.write(payload);
    const before = inodesIn(volume);
    for (const again of [writer, writer, new AtomicWriter(volume), writer, writer]) {
      const { changed, version } = again.write(new Map([...payload].toReversed()));
      assert.deepEqual({ changed, version }, { changed: false, version: first.version });
      assert.deepEqual(inodesIn(volume), before);
    }
  });

  test(`an update of content keeps the links (${under})`, (t) => {
    const volume = volumeIn(t);
    const writer = new AtomicWriter(volume);
    writer.write(payloadOf({ 'd/a': '1', b: '2' }));
    const before = ['d', 'b'].map((name) => lstatSync(join(volume, name)).ino);
    writer.write(payloadOf({ 'd/a': 'new', b: '2' }));
    assert.deepEqual(
      ['d', 'b'].map((name) => lstatSync(join(volume, name)).ino),
      before,
    );
    assert.equal(readFileSync(join(volume, 'd/a'), 'utf8'), 'new');
  });

  test(`beforePublish is called once for a real write, on a complete version (${under})`, (t) => {
    const volume = volumeIn(t);
    const writer = new AtomicWriter(volume);
    const calls: string[] = [];
    const beforePublish = (name: string): void => {
      calls.push(readFileSync(join(volume, name, 'a'), 'utf8'));
      assert.notEqual(liveVersion(volume), name);
    };
    for (const text of ['1', '1', '2', '2']) writer.write(payloadOf({ a: text }), { beforePublish });
    assert.deepEqual(calls, ['1', '2']);
  });

  test(`what beforePublish throws is thrown on, and the old content stays (${under})`, (t) => {
    const volume = volumeIn(t);
    const writer = new AtomicWriter(volume);
    writer.write(payloadOf({ a: 'old' }));
    const before = namesIn(volume);
    const refusal = Object.assign(new Error('no'), { code: 'EPERM', syscall: 'chmod' });
    const refuse = (): void => {
      throw refusal;
    };
    assert.throws(
      () => writer.write(payloadOf({ a: 'new', b: 'more' }), { beforePublish: refuse }),
      (error) => error === refusal,
    );
    assert.deepEqual(visibleFiles(volume), { a: 'old' });
    assert.deepEqual(namesIn(volume), before);
    assert.equal(writer.write(payloadOf({ a: 'new', b: 'more' })).changed, true);
    assert.deepEqual(visibleFiles(volume), { a: 'new', b: 'more' });
  });

  test(`lost links come back without a new version (${under})`, (t) => {
    const volume = volumeIn(t);
    const payload = payloadOf({ a: '1', 'd/b': '2' });
    const writer = new AtomicWriter(volume);
    const { version } = writer.write(payload);
    for (const again of [writer, new AtomicWriter(volume)]) {
      unlinkSync(join(volume, 'a'));
      unlinkSync(join(volume, 'd'));
      const outcome = again.write(payload);
      assert.deepEqual([outcome.changed, outcome.version], [false, version]);
      assert.deepEqual(visibleFiles(volume), { a: '1', 'd/b': '2' });
    }
  });

  const drifts: readonly { it: string; make: (volume: string, version: string) => void }[] = [
    { it: 'a file edited in place', make: (v, version) => writeFileSync(join(v, version, 'a'), '9') },
    { it: 'a file deleted', make: (v, version) => unlinkSync(join(v, version, 'a')) },
    {
      it: 'a file replaced by a directory',
      make: (v, version) => (unlinkSync(join(v, version, 'a')), mkdirSync(join(v, version, 'a'))),
    },
    {
      it: 'a file replaced by a link to an equal one',
      make: (v, version) => (unlinkSync(join(v, version, 'a')), symlinkSync('d/same', join(v, version, 'a'))),
    },
    { it: 'a file with another mode', make: (v, version) => chmodSync(join(v, version, 'a'), 0o666) },
    { it: 'a directory with another mode', make: (v, version) => chmodSync(join(v, version, 'd'), 0o700) },
    { it: 'an extra file', make: (v, version) => writeFileSync(join(v, version, 'd', 'extra'), '') },
    {
      it: 'an extra file with a name that is not UTF-8',
      make: (v, version) =>
        writeFileSync(Buffer.concat([Buffer.from(join(v, version, 'd/')), Buffer.from([0xff])]), ''),
    },
    { it: 'an extra directory', make: (v, version) => mkdirSync(join(v, version, 'extra/deep'), { recursive: true }) },
    { it: 'the version deleted', make: (v, version) => rmSync(join(v, version), { recursive: true }) },
    { it: '..data deleted', make: (v) => unlinkSync(join(v, '..data')) },
    {
      it: '..data turned out of the volume',
      make: (v) => (unlinkSync(join(v, '..data')), symlinkSync('/etc', join(v, '..data'))),
    },
    {
      it: '..data turned to an empty version',
      make: (v) => (
        unlinkSync(join(v, '..data')),
        mkdirSync(join(v, '..2026_01_01_00_00_00.1')),
        symlinkSync('..2026_01_01_00_00_00.1', join(v, '..data'))
      ),
    },
    { it: 'a link deleted', make: (v) => unlinkSync(join(v, 'd')) },
    {
      it: 'a link turned elsewhere',
      make: (v) => (unlinkSync(join(v, 'a')), symlinkSync('/etc/hostname', join(v, 'a'))),
    },
    { it: 'two links swapped', make: (v) => (unlinkSync(join(v, 'a')), symlinkSync('..data/d', join(v, 'a'))) },
    { it: 'a stale link of ours', make: (v) => symlinkSync('..data/gone', join(v, 'gone')) },
    { it: 'a stale ..data_tmp', make: (v) => symlinkSync('..2026_01_01_00_00_00.1', join(v, '..data_tmp')) },
    { it: 'a directory named ..data_tmp', make: (v) => mkdirSync(join(v, '..data_tmp/x'), { recursive: true }) },
    {
      it: 'an orphaned version',
      make: (v) => (
        mkdirSync(join(v, '..2026_01_01_00_00_00.1/d'), { recursive: true }),
        symlinkSync('/', join(v, '..2026_01_01_00_00_00.1/d/root'))
      ),
    },
  ];
  for (const { it, make } of drifts) {
    for (const [what, next] of [
      ['the same payload', { a: '1', 'd/same': '1' }],
      ['another payload', { a: '2', 'd/same': '2' }],
    ] as const) {
      test(`drift is repaired by ${what}: ${it} (${under})`, (t) => {
        const volume = volumeIn(t);
        const payload = payloadOf({ a: '1', 'd/same': '1' });
        const writer = new AtomicWriter(volume);
        for (let round = 0; round < 2; round += 1) {
          // Read and remembered in the first round, remembered from the last write in the second.
          for (let write = 0; write < 3 - round; write += 1) writer.write(payload);
          make(volume, writer.write(payload).version);
          writer.write(payloadOf(next));
          assert.deepEqual(visibleFiles(volume), next);
          assert.deepEqual(namesIn(volume), ['..data', '<version>', 'a', 'd']);
          assert.equal(modeOf(join(volume, 'a')), '0644');
          assert.equal(modeOf(join(volume, 'd')), '0755');
        }
      });
    }
  }

  test(`what others made in the volume stays, and hides a file of its name (${under})`, (t) => {
    const volume = volumeIn(t);
    mkdirSync(join(volume, 'mount/point'), { recursive: true });
    writeFileSync(join(volume, 'real'), 'mine');
    symlinkSync('/etc/hostname', join(volume, 'foreign'));
    symlinkSync('elsewhere', join(volume, '..2026_01_01_00_00_00.2'));
    writeFileSync(join(volume, '..other'), '');
    const writer = new AtomicWriter(volume);
    for (const files of [{ a: '1', mount: '2', 'real/x': '3' }, { b: '1', mount: '4' }, { mount: '4' }, {}]) {
      const wanted = Object.keys(files).map((path) => path.replace(/\/.*/, ''));
      assert.deepEqual(
        writer.write(payloadOf(files)).hidden,
        wanted.filter((name) => name === 'mount' || name === 'real'),
      );
      assert.deepEqual(readdirSync(join(volume, 'mount')), ['point']);
      assert.equal(readFileSync(join(volume, 'real'), 'utf8'), 'mine');
    }
    assert.deepEqual(namesIn(volume), [
      '..2026_01_01_00_00_00.2',
      '..data',
      '..other',
      '<version>',
      'foreign',
      'mount',
      'real',
    ]);
  });

  for (const make of [
    (data: string): void => writeFileSync(data, ''),
    (data: string): void => mkdirSync(data),
    (data: string): void => void mkdirSync(join(data, 'deep/er'), { recursive: true }),
  ]) {
    test(`a ..data that is not a link is replaced by one once the new version is complete (${under})`, (t) => {
      const volume = volumeIn(t);
      make(join(volume, '..data'));
      const refuse = (): void => {
        throw new Error('no');
      };
      const before = namesBelow(volume);
      assert.throws(
        () => new AtomicWriter(volume).write(payloadOf({ a: '1' }), { beforePublish: refuse }),
        /^Error: no/,
      );
      assert.deepEqual(namesBelow(volume), before);
      new AtomicWriter(volume).write(payloadOf({ a: '1' }));
      assert.deepEqual(visibleFiles(volume), { a: '1' });
      assert.deepEqual(namesIn(volume), ['..data', '<version>', 'a']);
    });
  }

  test(`any sequence of payloads ends in exactly the last one (${under})`, (t) => {
    const base = volumeIn(t);
    const name = fc.constantFrom('a', 'b', 'c', 'd e');
    const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((elements) => elements.join('/'));
    const file = fc.record({
      data: fc.uint8Array({ maxLength: 20 }),
      mode: fc.constantFrom(0o644, 0o400, 0o777, 0o407),
    });
    const payload = fc.array(fc.tuple(path, file), { maxLength: 6 }).map((entries) => {
      const kept = new Map(entries);
      for (const one of kept.keys())
        for (const other of kept.keys()) if (other.startsWith(`${one}/`)) kept.delete(other);
      return kept;
    });
    const step = fc.record({ payload, fresh: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 6 }), (steps) => {
        const volume = mkdtempSync(join(base, 'volume-'));
        try {
          let writer = new AtomicWriter(volume);
          for (const { payload: wanted, fresh } of steps) {
            if (fresh) writer = new AtomicWriter(volume);
            writer.write(wanted);
            const texts = [...wanted].map(([p, { data }]) => [p, Buffer.from(data).toString('latin1')]);
            assert.deepEqual(visibleFiles(volume), Object.fromEntries(texts));
            for (const [p, { mode }] of wanted) assert.equal(statSync(join(volume, p)).mode & 0o7777, mode);
            const links = new Set([...wanted.keys()].map((p) => p.replace(/\/.*/, '')));
            assert.deepEqual(namesIn(volume), ['..data', '<version>', ...links].sort());
          }
        } finally {
          rmSync(volume, { recursive: true });
        }
      }),
      { numRuns: 60 },
    );
  });

  test(`a buffer that its owner changes after the write is written again (${under})`, (t) => {
    const volume = volumeIn(t);
    const data = Buffer.from('old');
    const payload = new Map([['a', { data, mode: 0o644 }]]);
    const writer = new AtomicWriter(volume);
    writer.write(payload);
    writer.write(payload);
    data.write('new');
    assert.equal(writer.write(payload).changed, true);
    assert.equal(readFileSync(join(volume, 'a'), 'utf8'), 'new');
  });

  test(`a payload too large to remember is checked by reading (${under})`, (t) => {
    const volume = volumeIn(t);
    const writer = new AtomicWriter(volume);
    assert.deepEqual(
      [1, 1, 1, 2, 2].map((fill) => writer.write(large(fill)).changed),
      [true, false, false, true, false],
    );
    assert.deepEqual(namesIn(volume), ['..data', '<version>', 'd']);
  });
}

test('versions are named after the UTC time and a random number, and a taken name is tried again', (t) => {
  const volume = temporaryDirectory(t);
  const numbers = [4294967295, 4294967295, 7];
  const writer = new AtomicWriter(volume, {
    now: () => Date.UTC(2026, 7, 20, 8, 9, 6, 999),
    random: () => numbers.shift() ?? 0,
  });
  assert.equal(writer.write(payloadOf({ a: '1' })).version, '..2026_08_20_08_09_06.4294967295');
  assert.equal(writer.write(payloadOf({ a: '2' })).version, '..2026_08_20_08_09_06.7');
});

test('a volume that is reached through a link is written through it', (t) => {
  const base = temporaryDirectory(t);
  mkdirSync(join(base, 'real'));
  symlinkSync('real', join(base, 'link'));
  const writer = new AtomicWriter(join(base, 'link'));
  assert.deepEqual(
    ['1', '1', '2'].map((text) => writer.write(payloadOf({ a: text })).changed),
    [true, false, true],
  );
  assert.deepEqual(visibleFiles(join(base, 'real')), { a: '2' });
});

test('a full disk leaves the old content live and nothing else behind', (t) => {
  const volume = temporaryDirectory(t);
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=32k', 'tmpfs', volume], { encoding: 'utf8' });
  if (mounted.status !== 0) return t.skip(`needs root and mount(8): ${mounted.error?.message ?? mounted.stderr}`);
  try {
    const writer = new AtomicWriter(volume);
    writer.write(payloadOf({ a: 'old' }));
    const before = namesIn(volume);
    for (const size of [64, 30]) {
      const tooLarge = payloadOf({ a: 'new', b: 'x'.repeat(size * 1024) });
      assert.throws(() => writer.write(tooLarge), {
        code: 'ENOSPC',
        message: /^write .*\/b: no space left on device$/,
      });
      assert.deepEqual(visibleFiles(volume), { a: 'old' });
      assert.deepEqual(namesIn(volume), before);
    }
    assert.equal(writer.write(payloadOf({ a: 'new' })).changed, true);
  } finally {
    spawnSync('umount', [volume]);
  }
});

test('a volume that was removed is an error of the write', (t) => {
  const volume = join(temporaryDirectory(t), 'volume');
  mkdirSync(volume);
  const writer = new AtomicWriter(volume);
  writer.write(payloadOf({ a: '1' }));
  rmSync(volume, { recursive: true });
  assert.throws(() => writer.write(payloadOf({ a: '1' })), VolumeWriteError);
  mkdirSync(volume);
  assert.equal(writer.write(payloadOf({ a: '1' })).changed, true);
});
