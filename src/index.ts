/**
 * mountlet as a library.
 *
 * A program that wants its configuration replaced all at once:
 * ```ts
 * import { AtomicWriter } from 'mountlet';
 *
 * const writer = new AtomicWriter('/srv/app/config');
 * writer.write(new Map([['app.conf', { data: Buffer.from('port=8080\n'), mode: 0o644 }]]));
 * // Readers of /srv/app/config/app.conf see the old file or the new one; of several files, all old or all new.
 * ```
 *
 * What a pod would see, from manifests:
 * ```ts
 * import { readSources, render } from 'mountlet';
 *
 * const files = await readSources(['app.yaml'], () => Promise.resolve(new Uint8Array()));
 * const { pods, failures } = await render(
 *   { files, root: '/tmp/app', namespace: 'default', pods: [], clean: false, nodeName: 'here', runtimeDirectory: undefined, uid: 0 },
 *   console.warn,
 *   AbortSignal.timeout(10_000),
 * );
 * ```
 *
 * An API server and a node in this very process:
 * ```ts
 * import { agentSettings, startUp } from 'mountlet';
 *
 * const stop = new AbortController();
 * const node = agentSettings({ address: '127.0.0.1', port: 0 }, { nodeName: 'here', rootDirectory: '/srv/app/node' });
 * const machine = await startUp(
 *   { stateDirectory: '/srv/app', host: '127.0.0.1', port: 0, node },
 *   { runtimeDirectory: undefined, uid: 0, drains: true, hidden: [], notify: console.log, notifyServer: () => {} },
 *   stop.signal,
 * );
 * console.log(machine.kubeconfig); // for kubectl; stop.abort(), machine.node.ended and machine.close() end it
 * ```
 *
 * Checked objects from YAML, with the place of every problem:
 * ```ts
 * import { ManifestError, configMapKind, readManifests } from 'mountlet';
 *
 * const manifests = readManifests([{ name: 'app.yaml', text }], 'default'); // or a ManifestError
 * const configMaps = manifests.all(configMapKind);
 * ```
 */
export { MountletError } from './base/errors.ts';
export { systemClock } from './base/clock.ts';
export type { Clock } from './base/clock.ts';

export { AtomicWriter } from './disk/writer/atomic-writer.ts';
export type { WriteOptions, WriteOutcome } from './disk/writer/atomic-writer.ts';
export { InvalidPayloadPathError } from './disk/writer/payload.ts';
export type { Payload, PayloadFile } from './disk/writer/payload.ts';
export { OwnerRefusedError, VolumeWriteError } from './disk/writer/version.ts';
export { systemMounts } from './disk/mounts/mounts.ts';
export type { Mounts } from './disk/mounts/mounts.ts';

export { Quantity } from './kube/values/quantity.ts';
export { expand } from './kube/references/environment.ts';
export { ManifestError, Manifests, readManifests } from './kube/manifests/manifests.ts';
export type { ManifestFile, ManifestProblem } from './kube/manifests/manifests.ts';
export {
  claimKind,
  configMapKind,
  nodeKind,
  persistentVolumeKind,
  podKind,
  secretKind,
  serviceAccountKind,
  serviceKind,
  trustBundleKind,
} from './kube/manifests/manifest-kinds.ts';
export type { ObjectKind } from './kube/manifests/manifest-kinds.ts';
export type { ConfigMap } from './kube/kinds/config-map.ts';
export type { Container } from './kube/kinds/pod/container.ts';
export type { Node } from './kube/kinds/node.ts';
export type { Pod } from './kube/kinds/pod/pod.ts';
export type { Secret } from './kube/kinds/secret.ts';
export type { Service } from './kube/kinds/service.ts';
export type { Volume } from './kube/kinds/pod/volume.ts';

export { render } from './agent/render/render.ts';
export type { RenderResult, RenderSettings } from './agent/render/render.ts';
export { readSources } from './agent/machine/manifests-folder-reader.ts';
export type {
  PodFailure,
  RenderedContainer,
  RenderedCredential,
  RenderedMount,
  RenderedPod,
  RenderedVariable,
  RenderedVolume,
} from './agent/render/rendered-pod.ts';

export { agentSettings, readAgentConfiguration } from './agent/node/agent-settings.ts';
export type { AgentConfiguration, AgentSettings } from './agent/node/agent-settings.ts';
export { startNode } from './agent/node/node.ts';
export type { NodeDeps, RunningNode } from './agent/node/node.ts';
export { logLine } from './agent/node/notices.ts';
export type { NodeNotice } from './agent/node/notices.ts';
export { startUp } from './agent/embedded/up.ts';
export type { RunningMachine, UpDeps, UpSettings } from './agent/embedded/up.ts';
