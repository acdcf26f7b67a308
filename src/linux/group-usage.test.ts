import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import { readGroupUsage } from './group-usage.ts';

function files(t: TestContext, texts: Readonly<Record<string, string>>): string {
  const root = temporaryDirectory(t);
  for (const [path, text] of Object.entries(texts)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

test('a group of version 1 counts those below it', (t) => {
  const root = files(t, {
    'memory/memory.usage_in_bytes': '1000\n',
    'memory/memory.stat':
      'rss 1\ninactive_file 2\npgfault 3\nswap 4\ntotal_rss 10\ntotal_inactive_file 20\ntotal_pgfault 30\ntotal_pgmajfault 40\ntotal_swap 50\n',
    'memory/memory.limit_in_bytes': '2000\n',
    'memory/memory.memsw.limit_in_bytes': '2600\n',
    'memory/cgroup.procs': '',
    'memory/container/cgroup.procs': '7\n8\n',
    'cpuacct/cpuacct.usage': '123\n',
  });
  assert.deepEqual(
    readGroupUsage(1, (controller) => join(root, controller)),
    {
      cpuNanoseconds: 123,
      memoryBytes: 1000,
      workingSetBytes: 980,
      rssBytes: 10,
      pageFaults: 30,
      majorPageFaults: 40,
      swap: { usedBytes: 50, bytesMax: 600 },
      processes: 2,
    },
  );
});

test('a group of version 2, without a limit of swap', (t) => {
  const root = files(t, {
    'memory.current': '1000\n',
    'memory.stat': 'anon 10\ninactive_file 2000\npgfault 30\npgmajfault 40\n',
    'memory.swap.current': '50\n',
    'memory.swap.max': 'max\n',
    'cgroup.procs': '7\n',
    'cpu.stat': 'usage_usec 5\n',
  });
  assert.deepEqual(
    readGroupUsage(2, () => root),
    {
      cpuNanoseconds: 5000,
      memoryBytes: 1000,
      workingSetBytes: 0,
      rssBytes: 10,
      pageFaults: 30,
      majorPageFaults: 40,
      swap: { usedBytes: 50, bytesMax: undefined },
      processes: 1,
    },
  );
  assert.equal(
    readGroupUsage(2, () => join(root, 'none')),
    undefined,
  );
});
