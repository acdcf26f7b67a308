/**
 * mountlet as a library: configuration on disk as the kubelet would put it there, and the node that does it. Each name has an
 * example in docs/library.md. Other doors: `mountlet/plugins`, `mountlet/client`, `mountlet/apiserver`, `mountlet/testing`.
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
export { claimKind } from './kube/kinds/storage/persistent-volume-claim.ts';
export { configMapKind } from './kube/kinds/config-map.ts';
export { nodeKind } from './kube/kinds/node.ts';
export { persistentVolumeKind } from './kube/kinds/storage/persistent-volume.ts';
export { podKind } from './kube/kinds/pod/pod.ts';
export { secretKind } from './kube/kinds/secret.ts';
export { serviceAccountKind } from './kube/kinds/service-account.ts';
export { serviceKind } from './kube/kinds/service.ts';
export { trustBundleKind } from './kube/kinds/cluster-trust-bundle.ts';
export type { ManifestKind } from './kube/manifests/manifest-kinds.ts';
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

export { connectCluster } from './agent/machine/cluster.ts';
export type { Cluster, ClusterOptions, Draft, ObjectClient } from './agent/machine/cluster.ts';

export { agentSettings, readAgentConfiguration } from './agent/node/agent-settings.ts';
export type { AgentConfiguration, AgentSettings } from './agent/node/agent-settings.ts';
export { nodeDefaults, startNode } from './agent/node/node.ts';
export type { NodeDeps, RunningNode } from './agent/node/node.ts';
export { logLine } from './agent/node/notices.ts';
export type { LogLine, NodeNotice } from './agent/node/notices.ts';
export { startEmbeddedApiServer } from './agent/embedded/embedded-api-server.ts';
export type { EmbeddedApiServer } from './agent/embedded/embedded-api-server.ts';
export { startUp } from './agent/embedded/up.ts';
export type { RunningMachine, UpDeps, UpSettings } from './agent/embedded/up.ts';

export { machineVolumes } from './agent/node/node-volumes.ts';
export { VolumeManager } from './volumes/volume-manager.ts';
export type { VolumeManagerDeps, VolumeManagerSettings } from './volumes/volume-manager.ts';
export { PluginRegistry, standardPlugins } from './plugins/registry.ts';
export type {
  Follow,
  SetUpOutcome,
  SetUpRequest,
  TearDownRequest,
  VolumeAttributes,
  VolumePlugin,
} from './plugins/plugin.ts';

export { processRuntime } from './agent/machine/process-runtime.ts';
export type { OpenRuntime, OpenedRuntime, RuntimeParts } from './agent/machine/process-runtime.ts';
export type {
  ContainerRequest,
  ContainerState,
  ExecRequest,
  ExecResult,
  PodRequest,
  ProcessStreams,
  Runtime,
  RuntimeContainer,
  RuntimeImages,
  RuntimePod,
} from './runtimes/runtime.ts';

export { runControllers } from './controllers/controllers.ts';
