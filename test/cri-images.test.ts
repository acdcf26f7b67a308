/**
 * Images of a private registry: whose credentials open it (a pod's, its service account's, the node's, a program's), in which
 * order, and when an image is pulled at all. What the runtime was asked for is recorded on its way.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ImageService } from '../src/grpc/messages/cri_pb.ts';
import { type Containerd, startContainerd } from '../src/testing/machine/containerd.ts';
import { busyboxImage } from '../src/testing/machine/oci-image.ts';
import { registrySkip, startRegistry } from '../src/testing/machine/registry.ts';
import { type RuntimeRelay, startRuntimeRelay } from '../src/testing/servers/runtime-relay.ts';
import { eventually } from './kubectl-program.ts';
import { pod } from './manifests.ts';
import { mountlet, rootDirectory } from './mountlet-program.ts';
import { containerdRuntime, thisContainerd } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

const skip = withNode.skip || containerdRuntime.skip || registrySkip();
const login = { username: 'shop', password: 'sesame' };
/** The hosts that the registry stands for: pods log in to the first, the node itself to the others. */
const [forPods, forNode, forProgram] = ['docker.io', 'node.example', 'program.example'] as const;
const images = [
  ...['own', 'account', 'old', 'absent', 'second', 'fresh', 'kept', 'untagged'].map(
    (name) => `${forPods}/library/${name}`,
  ),
  `${forNode}/team/app`,
  `${forProgram}/team/app`,
];

let machine: UpMachine;
let containerd: Containerd;
let relay: RuntimeRelay;
const atEnd: (() => void | Promise<void>)[] = [];

before(async () => {
  if (skip !== false) return;
  const registry = await startRegistry({ after: (act) => atEnd.push(act) }, { [login.username]: login.password });
  for (const name of images) await registry.push(busyboxImage({ name: `${name}:${tagOf(name)}` }));
  containerd = await startContainerd({ after: () => {} }); // the machine ends it
  for (const host of [forPods, forNode, forProgram]) containerd.mirror(host, registry.url);
  const from = join(containerd.directory, 'relay.sock');
  relay = await startRuntimeRelay({ after: (act) => atEnd.push(act) }, { from, to: containerd.socket });
  machine = new UpMachine(thisContainerd(containerd, relay.endpoint));
  const root = join(machine.directory, 'state', 'node');
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, 'config.json'), JSON.stringify({ auths: { [forNode]: entry(login.password) } }));
  const settings = {
    apiVersion: 'mountlet.dev/v1alpha1',
    kind: 'AgentConfiguration',
    ...provider(machine.directory, forProgram),
  };
  writeFileSync(join(machine.directory, 'agent.yaml'), JSON.stringify(settings));
  await machine.start('--config', join(machine.directory, 'agent.yaml'));
});
after(async () => {
  await machine?.end();
  for (const act of atEnd) await act();
});

function tagOf(name: string): string {
  return name.endsWith('untagged') ? 'latest' : '1';
}

function entry(password: string): { readonly auth: string } {
  return { auth: Buffer.from(`${login.username}:${password}`).toString('base64') };
}

/** A program that logs in, and tells what it was asked. */
function provider(directory: string, host: string): object {
  const [programs, configuration] = [join(directory, 'programs'), join(directory, 'providers.yaml')];
  mkdirSync(programs);
  const answer = {
    apiVersion: 'credentialprovider.kubelet.k8s.io/v1',
    kind: 'CredentialProviderResponse',
    cacheKeyType: 'Registry',
    auth: { [host]: login },
  };
  const program = join(programs, 'knows');
  // One write: it runs for two images at once.
  writeFileSync(program, `#!/bin/sh\nasked=$(cat)\necho "$asked$1" >>"$ASKED"\necho '${JSON.stringify(answer)}'\n`);
  chmodSync(program, 0o755);
  const known = {
    name: 'knows',
    matchImages: [`*.${host.split('.')[1]}`],
    defaultCacheDuration: '1m',
    apiVersion: answer.apiVersion,
    args: ['word'],
    env: [{ name: 'ASKED', value: join(directory, 'asked') }],
  };
  const config = { apiVersion: 'kubelet.config.k8s.io/v1', kind: 'CredentialProviderConfig', providers: [known] };
  writeFileSync(configuration, JSON.stringify(config));
  return { imageCredentialProviderConfig: configuration, imageCredentialProviderBinDir: programs };
}

function pullSecret(name: string, password: string, isOld = false): object {
  const auths = { 'https://index.docker.io/v1/': entry(password) };
  const [type, key, content] = isOld
    ? ['kubernetes.io/dockercfg', '.dockercfg', auths]
    : ['kubernetes.io/dockerconfigjson', '.dockerconfigjson', { auths }];
  const stringData = { [key]: JSON.stringify(content) };
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name }, type, stringData };
}

const withSecrets = (...names: readonly string[]): { readonly imagePullSecrets: readonly object[] } => ({
  imagePullSecrets: names.map((name) => ({ name })),
});

/** What was pulled under a name, with which passwords. */
function pulls(image: string): readonly (string | undefined)[] {
  const asked = relay.requests(ImageService.method.pullImage).filter((request) => request.image?.image === image);
  for (const { auth } of asked) {
    if (auth === undefined) continue;
    assert.equal(auth.username, login.username);
    // An address would keep a runtime from sending it to a mirror.
    assert.deepEqual([auth.auth, auth.serverAddress, auth.identityToken, auth.registryToken], ['', '', '', '']);
  }
  return asked.map(({ auth }) => auth?.password);
}

const happens = async (name: string, what: RegExp): Promise<void> =>
  await eventually(async () => assert.match(await machine.kubectl.ok(`events --for pod/${name}`), what));
const waiting = '{.status.containerStatuses[0].state.waiting.reason}';

describe('images', { skip, concurrency: 3 }, () => {
  test("a pod's own Secret opens the registry, of either type", async () => {
    const { kubectl } = machine;
    await kubectl.apply(
      pullSecret('new-type', login.password),
      pullSecret('old-type', login.password, true),
      pod('own', { image: 'own:1' }, withSecrets('new-type')),
      pod('old', { image: 'old:1' }, withSecrets('old-type')),
    );
    await kubectl.running('own', 'old');
    assert.deepEqual([...pulls('own:1'), ...pulls('old:1')], [login.password, login.password]);
    const request = relay.requests(ImageService.method.pullImage).find(({ image }) => image?.image === 'own:1');
    assert.equal(request?.sandboxConfig?.metadata?.name, 'own', 'the runtime is told for whom');
    await happens('own', /Successfully pulled image "own:1" in .*Image size: \d+ bytes/);
  });

  test('so does one of its service account', async () => {
    const { kubectl } = machine;
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'puller' } };
    await kubectl.apply(
      pullSecret('of-account', login.password),
      { ...account, ...withSecrets('of-account') },
      pod('account', { image: 'account:1' }, { serviceAccountName: 'puller' }),
    );
    await kubectl.running('account');
    assert.deepEqual(pulls('account:1'), [login.password]);
  });

  test('a Secret that does not exist is named when the pull has failed; it counts as soon as there is one', async () => {
    const { kubectl } = machine;
    await kubectl.apply(pod('absent', { image: 'absent:1' }, withSecrets('later')));
    await happens('absent', /FailedToRetrieveImagePullSecret.*Unable to retrieve some image pull secrets \(later\)/);
    await kubectl.until('pod/absent', waiting, 'ImagePullBackOff');
    await kubectl.apply(pullSecret('later', login.password));
    await kubectl.running('absent');
    const [first, ...more] = pulls('absent:1');
    assert.deepEqual([first, more.at(-1)], [undefined, login.password], 'without a login at first');
  });

  test('several are tried in the order of the pod, and none is repeated in an Event', async () => {
    const { kubectl } = machine;
    await kubectl.apply(
      pullSecret('wrong', 'outdated-word'),
      pullSecret('right', login.password),
      pod('second', { image: 'second:1' }, withSecrets('wrong', 'right')),
    );
    await kubectl.running('second');
    assert.deepEqual(pulls('second:1'), ['outdated-word', login.password]);
    await kubectl.apply(pod('wrong', { image: 'second:1', imagePullPolicy: 'Always' }, withSecrets('wrong')));
    await happens('wrong', /Failed to pull image "second:1".*401 Unauthorized/);
    assert.doesNotMatch(await kubectl.ok('get events,pods -o json'), /outdated-word/);
    await kubectl.ok('delete pod wrong --now');
  });

  test("a login of the node's own file, and of a program, opens a registry for every pod", async () => {
    const { kubectl } = machine;
    const [ofFile, ofProgram] = [`${forNode}/team/app:1`, `${forProgram}/team/app:1`];
    await kubectl.apply(pod('node-login', { image: ofFile }), pod('program-login', { image: ofProgram }));
    await kubectl.running('node-login', 'program-login');
    assert.deepEqual(pulls(ofProgram), [login.password]);
    assert.deepEqual(pulls(ofFile), [login.password], 'that of the program is for another registry');
    const asked = readFileSync(join(machine.directory, 'asked'), 'utf8');
    const words = { kind: 'CredentialProviderRequest', apiVersion: 'credentialprovider.kubelet.k8s.io/v1' };
    assert.ok(asked.includes(`${JSON.stringify({ ...words, image: `${forProgram}/team/app` })}word\n`), asked);
  });

  test('Always pulls for every pod, IfNotPresent once, Never not at all', async () => {
    const { kubectl } = machine;
    const spec = withSecrets('policies');
    await kubectl.apply(
      pullSecret('policies', login.password),
      pod('fresh', { image: 'fresh:1', imagePullPolicy: 'Always' }, spec),
      pod('kept', { image: 'kept:1', imagePullPolicy: 'IfNotPresent' }, spec),
      pod('untagged', { image: 'untagged' }, spec),
      pod('never', { image: 'never:1', imagePullPolicy: 'Never' }, spec),
    );
    await kubectl.running('fresh', 'kept', 'untagged');
    await kubectl.until('pod/never', waiting, 'ErrImageNeverPull');
    await kubectl.apply(
      pod('fresh-again', { image: 'fresh:1', imagePullPolicy: 'Always' }, spec),
      pod('kept-again', { image: 'kept:1', imagePullPolicy: 'IfNotPresent' }),
      pod('never-again', { image: 'kept:1', imagePullPolicy: 'Never' }),
    );
    await kubectl.running('fresh-again', 'kept-again', 'never-again');
    await happens('fresh-again', /Successfully pulled image "fresh:1"/);
    for (const name of ['kept-again', 'never-again'])
      await happens(name, /Container image "kept:1" already present on machine/);
    const counts = ['fresh:1', 'kept:1', 'untagged:latest', 'never:1'].map((image) => pulls(image).length);
    assert.deepEqual(counts, [2, 1, 1, 0]);
    const policy = 'jsonpath={.spec.containers[0].imagePullPolicy}';
    assert.equal(await kubectl.ok(['get', 'pod', 'untagged', '-o', policy]), 'Always', 'as for every image of no tag');
  });
});

test('programs for logins that cannot be used end the start of an agent with words', (t) => {
  const directory = rootDirectory(t);
  const { imageCredentialProviderConfig: config, imageCredentialProviderBinDir: programs } = provider(
    directory,
    forProgram,
  ) as Readonly<Record<string, string>>;
  const empty = join(directory, 'manifests');
  mkdirSync(empty);
  const start = (configuration: string | undefined, place: string | undefined): string => {
    const given = ['--image-credential-provider-config', configuration ?? '', '--image-credential-provider-bin-dir'];
    const where = ['--manifests', empty, '--root-dir', join(directory, 'root'), '--port', '0'];
    const { code, stderr } = mountlet(['agent', ...where, ...given, place ?? '']);
    assert.equal(code, 1, stderr);
    return stderr;
  };
  assert.match(start(config, empty), /^error: plugin binary executable .*manifests\/knows did not exist$/m);
  assert.match(start(config, join(directory, 'none')), /^error: plugin binary directory .*none did not exist$/m);
  writeFileSync(join(directory, 'bad.yaml'), '{"kind":"Pod"}');
  assert.match(start(join(directory, 'bad.yaml'), programs), /bad\.yaml: .*CredentialProviderConfig/);
});
