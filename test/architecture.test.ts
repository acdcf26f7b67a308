/** Guards the walls between the rooms of `src/`: every import is compared with the table below, which has the reasons. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const source = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'src');

interface Room {
  /** Rooms (or single files, `plugins/plugin`) this one may import. */
  readonly may: readonly string[];
  readonly because: string;
}

const everyRoom =
  'base kube linux grpc spdy disk client objects plugins csi volumes runtimes services pods stats reclaim node node-server apiserver controllers control'.split(
    ' ',
  );
const rooms: Readonly<Record<string, Room>> = {
  base: { may: [], because: 'base is useful in any program and knows nothing of this one' },
  kube: { may: ['base'], because: 'kube is pure: objects in, objects or errors out' },
  linux: {
    may: ['base'],
    because: 'linux has system calls that Node does not offer, and knows nothing of what they are for',
  },
  grpc: { may: ['base'], because: 'grpc has calls and messages, and knows nothing of who makes them' },
  spdy: { may: ['base'], because: 'both ends of a SPDY connection, which know nothing of who streams what' },
  disk: { may: ['base', 'linux'], because: 'disk has all file effects and knows no Kubernetes object' },
  client: { may: ['base', 'kube'], because: 'the client knows an API server only through HTTP' },
  objects: { may: ['base', 'kube', 'client'], because: 'object managers know no volume' },
  // `linux/system-call-error` has the words for a failed system call, once for all rooms that make some.
  plugins: {
    may: ['base', 'kube', 'disk', 'linux/system-call-error'],
    because: 'a plugin gets its objects through the interface it declares',
  },
  csi: {
    // Its controller side is a set of loops on a cluster, as those of the controllers room.
    may: [
      'base',
      'kube',
      'grpc',
      'disk',
      'linux/system-call-error',
      'plugins/plugin',
      'controllers/cluster/cluster',
      'controllers/cluster/events',
      'controllers/cluster/work-queue',
      'controllers/storage/storage',
      'controllers/storage/storage-view',
      'controllers/storage/volume-expander',
    ],
    because: 'a driver outside the program is a plugin like any other: what it needs of a cluster it declares',
  },
  volumes: {
    may: ['base', 'kube', 'plugins/plugin'],
    because: 'the volume manager knows plugins only by their contract',
  },
  runtimes: {
    // Reading the mount table, walking into a directory that a container writes to, and asking a server that may be gone are
    // done once, and there.
    may: [
      'base',
      'kube',
      'linux',
      'grpc',
      'spdy',
      'disk/mounts/mount-table',
      'disk/paths/safe-open',
      'disk/devices/block-device',
      'disk/devices/programs',
      'disk/devices/foreign-paths',
    ],
    because: 'a runtime is told what to run and where its mounts are',
  },
  services: {
    may: ['base', 'kube', 'runtimes/runtime'],
    because: "what a Service leads to and what names mean is decided here; packet rules are the runtime's",
  },
  pods: {
    may: ['base', 'kube', 'grpc', 'volumes', 'runtimes/runtime'],
    because: 'pod workers use contracts, not plugins or runtimes',
  },
  stats: {
    may: ['base', 'linux/network-counters', 'runtimes/runtime'],
    because: 'what is used is counted by the runtime, the kernel and walks; what pods are is told to it',
  },
  reclaim: {
    may: ['base', 'kube', 'runtimes/runtime'],
    because: 'who has to make room is decided here from figures; measuring, removing and ending pods is done by others',
  },
  'node-server': {
    may: ['base', 'kube', 'spdy', 'runtimes/runtime'],
    because: "the node's server passes on what others know: it decides nothing about pods and runs nothing itself",
  },
  node: {
    may: ['base', 'kube', 'client'],
    because: 'what a node says of itself is told to it: it knows neither pods nor volumes',
  },
  apiserver: { may: ['base', 'kube'], because: 'the server must not know the node: any node may talk to it' },
  controllers: {
    may: ['base', 'kube'],
    because: 'a controller works on any cluster that it is given, in this process or over HTTP',
  },
  control: {
    may: ['base', 'kube'],
    because: 'both ends of the socket of a running node, which pass on what others know',
  },
  agent: { may: everyRoom, because: 'agent is the composition root and starts everything but the command line' },
  // `linux/processes` ends a process that `process.exit` may leave hanging.
  cli: {
    may: ['agent', 'client', 'control', 'kube', 'base', 'linux/processes'],
    because: 'the command line only asks the agent and prints',
  },
  testing: { may: everyRoom, because: 'testing serves tests and never the program' },
};

/**
 * The folders inside a room, from the bottom up: each imports only those before it. `.` stands for the files directly in the
 * room. A room that is not listed has no folders.
 */
const layers: Readonly<Record<string, readonly string[]>> = {
  kube: [
    'values',
    'schema',
    'kinds/storage',
    'kinds/pod',
    'kinds/access',
    'kinds/policy',
    'kinds/workloads',
    'kinds',
    'references',
    'manifests',
  ],
  disk: ['mounts', 'paths', 'writer', 'devices', 'pods'],
  client: ['transport', 'credentials', 'api', '.'],
  runtimes: ['.', 'process/network', 'process/sandbox', 'process/spawner', 'process', 'cri'],
  pods: ['view', 'images', 'sources', 'probes', 'containers', 'status', 'workers', 'loop'],
  'node-server': ['streams', '.'],
  apiserver: [
    'store',
    'model',
    'watch',
    'patch',
    'documents',
    'identity',
    'admission',
    'resources',
    'wire',
    'rest',
    'serving',
    '.',
  ],
  controllers: ['cluster', 'storage', 'attachments', 'workloads', 'scheduling', 'endpoints', '.'],
  csi: ['.', 'controller'],
  agent: ['machine', 'node', 'embedded', 'render'],
  testing: ['machine', 'fakes', 'servers', 'csi', 'worlds', '.'],
};

const filesMax = 20;
const filesMin = 4;
/** Folders that may hold fewer files. */
const small: Readonly<Record<string, string>> = {
  apiserver: 'the door alone',
  grpc: 'calls alone: the messages are generated',
  runtimes: 'the contract alone: every runtime has a folder',
  testing: 'the door alone',
};
const depthMax = 4;

interface Import {
  readonly from: string;
  readonly to: string;
}

function roomOf(file: string): string {
  return file.includes('/') ? file.slice(0, file.indexOf('/')) : '';
}

/** The folder of a file inside its room; `.` for the room itself. */
function layerOf(file: string): string {
  return relative(roomOf(file), dirname(file)) || '.';
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(source, file), 'utf8');
  const found = text.matchAll(
    /(?:^|\n)\s*(?:import|export)\s[^;]*?from\s+'(\.[^']+)'|import\('(\.[^']+)'\)|(?:^|\n)import '(\.[^']+)'/g,
  );
  return [...found].map(([, a, b, c]) => ({
    from: file,
    to: relative(source, resolve(source, dirname(file), a ?? b ?? c ?? '')),
  }));
}

const files = readdirSync(source, { recursive: true })
  .map(String)
  .filter((name) => name.endsWith('.ts'))
  .sort();
/** Without what `npm run generate` makes. */
const programFiles = files.filter((name) => !name.endsWith('.test.ts') && !name.startsWith('grpc/messages/'));

test('every file stands in a room of the table', () => {
  const strangers = files.filter((file) => file !== 'index.ts' && rooms[roomOf(file)] === undefined);
  assert.deepEqual(strangers, []);
});

test('rooms import only what the table allows', () => {
  const wrong = programFiles.flatMap(importsOf).flatMap(({ from, to }) => {
    const room = roomOf(from);
    if (room === '' || roomOf(to) === room) return [];
    const { may, because } = rooms[room] ?? { may: [], because: 'it is in no room' };
    const allowed = may.some((name) => roomOf(to) === name || to === `${name}.ts`);
    return allowed ? [] : [`${from} imports ${to}: ${because}`];
  });
  assert.deepEqual(wrong, []);
});

test('inside a room imports go down its layers, those of types too', () => {
  const wrong = programFiles.flatMap(importsOf).flatMap(({ from, to }) => {
    const room = roomOf(from);
    if (room === '' || roomOf(to) !== room) return [];
    const [own, other] = [layerOf(from), layerOf(to)];
    const order = layers[room] ?? ['.'];
    return own === other || to.startsWith('grpc/messages/') || order.indexOf(other) < order.indexOf(own)
      ? []
      : [`${from} imports ${to}`];
  });
  assert.deepEqual(wrong, []);
});

test('every folder has its place among the layers of its room, and every layer has a folder', () => {
  const folders = new Set(programFiles.filter((file) => roomOf(file) !== '').map((file) => dirname(file)));
  const listed = Object.keys(rooms).flatMap((room) => (layers[room] ?? ['.']).map((layer) => join(room, layer)));
  assert.deepEqual([...folders].filter((folder) => !listed.includes(folder)).sort(), []);
  assert.deepEqual(listed.filter((folder) => !folders.has(folder)).sort(), []);
});

test('a folder can be read: not too many files in it, not too few, and not too deep', () => {
  const counts = new Map<string, number>();
  for (const file of programFiles) {
    const folder = dirname(file);
    if (folder !== '.') counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  const wrong = [...counts].filter(
    ([folder, count]) =>
      count > filesMax ||
      (count < filesMin && small[folder] === undefined) ||
      `src/${folder}`.split('/').length > depthMax,
  );
  assert.deepEqual(wrong, []);
});

test('only the command line touches process', () => {
  const wrong = programFiles
    // The spawner is a program of its own.
    .filter((file) => !['cli', 'testing'].includes(roomOf(file)) && file !== 'runtimes/process/spawner/spawner.ts')
    .filter((file) =>
      /(?<![.\w'"`-])process\.(?!getuid\b|geteuid\b|pid\b)/.test(
        withoutComments(readFileSync(join(source, file), 'utf8')),
      ),
    );
  assert.deepEqual(wrong, []);
});

/** Files that may wait for a child process. Each runs before there is a server to hold up. */
const waitsForChildren = new Set(['runtimes/process/machine.ts']);

test('no program file waits for a child process: a server would stop meanwhile', () => {
  const wrong = programFiles
    .filter((file) => roomOf(file) !== 'testing' && !waitsForChildren.has(file))
    .map((file) => ({ file, text: withoutComments(readFileSync(join(source, file), 'utf8')) }))
    // A container runtime has a call of one of these names.
    .filter(({ text }) => text.includes('child_process') && /\b(spawnSync|execSync|execFileSync)\b/.test(text))
    .map(({ file }) => file);
  assert.deepEqual(wrong, []);
});

test('only linux/ imports koffi: native calls are bound in one room', () => {
  const wrong = files
    .filter((file) => roomOf(file) !== 'linux' && !file.endsWith('.test.ts'))
    .filter((file) => /(from |import\(|require\(|\)\()'koffi'/.test(readFileSync(join(source, file), 'utf8')));
  assert.deepEqual(wrong, []);
});

/** Each has one implementation in `base/`. */
const mechanisms = [
  { pattern: /addEventListener\(\s*'abort'/, use: 'onAbort of base/abort.ts' },
  // A delay that doubles up to a limit.
  {
    pattern: /Math\.min\([^;]*((Ms|[dD]elay)\w* \* 2\b|\b2 \* \w*(Ms|[dD]elay)\b|\* 2 \*\* )/,
    use: 'BackOff of base/back-off.ts',
  },
];

test('no program file outside base has an abort listener or a back-off of its own', () => {
  const wrong = programFiles
    .filter((file) => !['base', 'testing'].includes(roomOf(file)))
    .flatMap((file) => {
      const text = withoutComments(readFileSync(join(source, file), 'utf8'));
      return mechanisms.flatMap(({ pattern, use }) => (pattern.test(text) ? [`${file}: use ${use}`] : []));
    });
  assert.deepEqual(wrong, []);
});

test('no file is named after nothing', () => {
  assert.deepEqual(
    files.filter((file) => /(^|\/)(utils?|helpers?|common|types?|misc)(\.|\/|$)/.test(file)),
    [],
  );
});

test('the table of rooms has no import that goes both ways', () => {
  for (const [name, { may }] of Object.entries(rooms)) {
    for (const other of may)
      assert.ok(!rooms[roomOf(`${other}/`)]?.may.includes(name), `${name} and ${other} import each other`);
  }
});

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
}
