// `npm run walk`: which functions run between the PUT of a ConfigMap and the new bytes on disk, in the API server and from the watch on.
// Starts `mountlet up` from the compiled sources with one pod, and counts with V8's precise coverage. `--details` lists them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { root, setUp } from './set-up.js';

// In the measured process: answers `start` and `take`.
const measuring = `
import { Session } from 'node:inspector/promises';
const session = new Session();
session.connect();
await session.post('Profiler.enable');
process.on('message', async (word) => {
  if (word === 'start') await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  else process.send((await session.post('Profiler.takePreciseCoverage')).result.filter(({ url }) => url.includes('/dist/src/')));
  if (word === 'start') process.send('started');
});
process.channel?.unref();
`;

setUp();
const directory = mkdtempSync(join(tmpdir(), 'mountlet-walk-'));
const state = join(directory, 'state');
const configMap = (value) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'config' },
  data: { key: value },
});
const container = {
  name: 'main',
  image: 'none',
  command: ['sleep', '1000'],
  volumeMounts: [{ name: 'config', mountPath: '/c' }],
};
const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'walk' },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [container],
    volumes: [{ name: 'config', configMap: { name: 'config' } }],
  },
};
writeFileSync(
  join(directory, 'walk.json'),
  JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [configMap('0'), pod] }),
);
writeFileSync(join(directory, 'measuring.mjs'), measuring);
const program = [
  join(root, 'dist', 'src', 'cli', 'main.js'),
  'up',
  '--state',
  state,
  '--listen',
  '127.0.0.1:0',
  '--drain',
];
const child = spawn(
  process.execPath,
  ['--import', join(directory, 'measuring.mjs'), ...program, '--apply', join(directory, 'walk.json')],
  { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
);
const ask = async (word) => {
  child.send(word);
  return (await once(child, 'message'))[0];
};

function file() {
  const pods = join(state, 'node', 'pods');
  try {
    const [uid] = readdirSync(pods);
    return readFileSync(join(pods, uid, 'volumes', 'kubernetes.io~configmap', 'config', 'key'), 'utf8');
  } catch {
    return undefined;
  }
}

async function put(value) {
  const { clusters, users } = JSON.parse(readFileSync(join(state, 'kubeconfig'), 'utf8'));
  const bytes = (text) => Buffer.from(text, 'base64');
  const { user } = users[0];
  const sent = request(new URL('/api/v1/namespaces/default/configmaps/config', clusters[0].cluster.server), {
    method: 'PUT',
    ca: bytes(clusters[0].cluster['certificate-authority-data']),
    cert: bytes(user['client-certificate-data']),
    key: bytes(user['client-key-data']),
    headers: { 'content-type': 'application/json' },
  });
  sent.end(JSON.stringify(configMap(value)));
  const [answer] = await once(sent, 'response');
  answer.resume();
  if (answer.statusCode !== 200) throw new Error(`PUT answered ${answer.statusCode}`);
  while (file() !== value) await turn();
}

try {
  for (let waited = 0; file() !== '0'; waited += 50) {
    if (waited > 20_000) throw new Error('the pod has no volume after 20 s');
    await sleep(50);
  }
  for (const value of ['1', '2']) await put(value);
  await sleep(1_500); // until what follows an update, as an old version that is kept for a second, is over
  await ask('start');
  await put('3');
  const scripts = await ask('take');
  const called = scripts
    .map(({ url, functions }) => ({
      file: url.replace(/.*\/dist\/src\//, '').replace(/\.js$/, '.ts'),
      names: functions
        .filter(({ ranges: [range] }) => range.count > 0 && range.startOffset > 0)
        .map(({ functionName }) => functionName || '(anonymous)'),
    }))
    .filter(({ names }) => names.length > 0);
  const count = (list) => `${list.reduce((sum, { names }) => sum + names.length, 0)} functions in ${list.length} files`;
  const isServer = ({ file: name }) => /^(apiserver|controllers)\//.test(name);
  process.stdout.write(`ConfigMap PUT to file:  ${count(called)}\n`);
  process.stdout.write(`  in the API server:    ${count(called.filter(isServer))}\n`);
  process.stdout.write(`  everything else:      ${count(called.filter((one) => !isServer(one)))}\n`);
  if (process.argv.includes('--details')) {
    for (const { file: name, names } of called) process.stdout.write(`${name}: ${names.join(', ')}\n`);
  }
} finally {
  child.kill('SIGTERM');
  await once(child, 'exit');
  rmSync(directory, { recursive: true, force: true });
}
