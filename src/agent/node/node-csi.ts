/** CSI on this node: the drivers that register with it, what the cluster says of drivers, and what it learns of those here. */
import { join } from 'node:path';
import type { Clock, Pausing } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { runTask } from '../../base/run-task.ts';
import { Turns } from '../../base/turns.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { ApiError, ForbiddenError, NotFoundError, UnauthorizedError } from '../../client/api/api-errors.ts';
import { csiDrivers, csiNodes, volumeAttachments, withShape } from '../../client/api/resource-reference.ts';
import { ObjectCache } from '../../client/object-cache.ts';
import {
  ClusterAwayError,
  type CsiNodeNotice,
  CsiNodeWriter,
  CsiNodesUnavailableError,
  type NodeInfoCluster,
} from '../../csi/csi-node.ts';
import type { DriverObjects } from '../../csi/driver-inputs.ts';
import type { CsiControllerNotice } from '../../csi/controller/csi-controllers.ts';
import { CsiDrivers } from '../../csi/drivers.ts';
import { csiPlugin } from '../../csi/plugin.ts';
import { type RegistrationNotice, Registrations, registrationTimeouts } from '../../csi/registration.ts';
import { systemPrograms } from '../../disk/devices/programs.ts';
import { makeDirectories } from '../../disk/paths/directories.ts';
import { type CsiDriver, type CsiNode, csiDriverShape, csiNodeShape } from '../../kube/kinds/storage/csi.ts';
import { volumeAttachmentShape } from '../../kube/kinds/storage/volume-attachment.ts';
import { podNamespace } from '../../kube/kinds/pod/pod-identity.ts';
import { timestamp } from '../../kube/values/times.ts';
import { nodeResource } from '../../node/own-node.ts';
import { managedSecrets } from '../../objects/object-manager.ts';
import type { VolumePlugin } from '../../plugins/plugin.ts';
import type { AgentSettings } from './agent-settings.ts';
import type { NodeObjects } from './node-objects.ts';
import type { NotifyNode } from './notices.ts';

/** Those of a controller side are the node's where one process runs both. */
export type CsiNotice = RegistrationNotice | CsiNodeNotice | CsiControllerNotice;

interface NodeCsiDeps extends Pausing {
  readonly client: ApiClient;
  /** From 0 to 1. */
  readonly random: () => number;
  readonly notify: NotifyNode;
}

export interface NodeCsi {
  readonly drivers: CsiDrivers;
  /** The CSIDrivers of the cluster, from memory. */
  readonly driverObjects: DriverObjects;
  /** Why this node is not ready. */
  problems(): readonly string[];
  /** The driver is asked again how many volumes the node can take: it turned out to be fewer. */
  limitReached(driver: string): void;
  nodeChanged(uid: string | undefined): void;
  /** The API server is back. */
  retryNow(): void;
  /** `changed` is called when a volume that failed may succeed now: a driver came, or its CSIDriver has changed. */
  run(changed: () => void, signal: AbortSignal): Promise<void>;
}

const csiNodeResource = withShape(csiNodes, csiNodeShape);

export function nodeCsi(
  deps: NodeCsiDeps,
  { nodeName, rootDirectory }: Pick<AgentSettings, 'nodeName' | 'rootDirectory'>,
): NodeCsi {
  const { client, clock, notify } = deps;
  const drivers = new CsiDrivers();
  const objects = new ObjectCache<CsiDriver>();
  const csiNode = new CsiNodeWriter({ cluster: nodeInfoCluster(client, nodeName), clock, notify });
  const updatePeriodMs = (driver: string): number | undefined => {
    const seconds = objects.get(driver)?.spec.nodeAllocatableUpdatePeriodSeconds;
    return seconds === undefined ? undefined : seconds * 1000;
  };
  const timeouts = registrationTimeouts;
  const registrations = new Registrations({ ...deps, drivers, records: csiNode, updatePeriodMs, timeouts });
  const directory = join(rootDirectory, 'plugins_registry');
  const tasks = (changed: () => void): Readonly<Record<string, (signal: AbortSignal) => Promise<void>>> => ({
    'the CSINode': (signal) => csiNode.run(signal),
    'the CSIDrivers': (signal) => objects.follow(deps, { resource: withShape(csiDrivers, csiDriverShape) }, signal),
    'the registration of drivers': async (signal) => {
      // Where drivers keep their own sockets: manifests of drivers expect both directories.
      makeDirectories(join(rootDirectory, 'plugins'));
      await registrations.run(directory, signal);
    },
    'changes of drivers': async (signal) => {
      for await (const driver of drivers.follow(signal)) if (drivers.get(driver) !== undefined) changed();
    },
  });
  return {
    drivers,
    driverObjects: {
      whenRead: (signal) => objects.whenSynced(signal),
      get: (driver) => objects.get(driver),
    },
    problems: () => (csiNode.problem === undefined ? [] : [csiNode.problem]),
    limitReached: (driver) => registrations.refresh(driver),
    nodeChanged: (uid) => csiNode.nodeChanged(uid),
    retryNow: () => {
      csiNode.retryNow();
      registrations.retryNow();
    },
    run: async (changed, signal) => {
      const unsubscribe = objects.subscribe(({ key }) => {
        registrations.refresh(key);
        changed();
      });
      try {
        await Promise.all(Object.entries(tasks(changed)).map(([task, body]) => runTask(task, body, deps, signal)));
      } finally {
        unsubscribe();
        drivers.close();
      }
    },
  };
}

interface CsiVolumesDeps {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly objects: Pick<NodeObjects, 'tokens'>;
  readonly notify: NotifyNode;
}

const attachmentResource = withShape(volumeAttachments, volumeAttachmentShape);

/** The volumes of the node's drivers, which get what they need from the API server itself: nothing of it may be an old copy. */
export function csiVolumes(
  csi: NodeCsi,
  { client, clock, objects, notify }: CsiVolumesDeps,
  { nodeName, rootDirectory: root }: AgentSettings,
): VolumePlugin {
  return csiPlugin({
    drivers: csi.drivers,
    driverObjects: csi.driverObjects,
    limitReached: (driver) => csi.limitReached(driver),
    attachments: { get: (name, signal) => client.get(attachmentResource, { name }, signal) },
    secrets: { get: (namespace, name, signal) => client.get(managedSecrets.resource, { namespace, name }, signal) },
    tokens: {
      async issue({ pod: { metadata, spec }, audience, expirationSeconds }, signal) {
        const request = {
          namespace: podNamespace({ metadata }),
          serviceAccountName: spec.serviceAccountName ?? '',
          audiences: audience === '' ? [] : [audience],
          expirationSeconds,
          pod: { name: metadata.name, uid: metadata.uid ?? '' },
        };
        const { text, expiresMs } = await objects.tokens.issue(request, signal);
        return { token: text, expirationTimestamp: timestamp(expiresMs) };
      },
    },
    root,
    nodeName,
    programs: systemPrograms(),
    turns: new Turns(() => clock.now()),
    clock,
    notify,
  });
}

function nodeInfoCluster(client: ApiClient, name: string): NodeInfoCluster {
  return {
    node: (signal) =>
      asked(client.get(nodeResource, { name }, signal)).catch((error: unknown) => {
        // It will register, or register again.
        throw error instanceof NotFoundError ? new ClusterAwayError(error.message, { cause: error }) : error;
      }),
    patchNode: async (patch, signal) => {
      await asked(client.patch(nodeResource, { name, subresource: 'status', type: 'strategic' }, patch, signal));
    },
    csiNode: async (signal) => {
      try {
        return await asked(client.get(csiNodeResource, { name }, signal));
      } catch (error) {
        if (error instanceof NotFoundError) return undefined;
        throw error instanceof ForbiddenError ? unavailable(error) : error;
      }
    },
    createCsiNode: async (csiNode, signal) => {
      try {
        return await asked(client.create(csiNodeResource, {}, csiNode, signal));
      } catch (error) {
        // What can be not found about a creation is the kind.
        throw error instanceof NotFoundError || error instanceof ForbiddenError ? unavailable(error) : error;
      }
    },
    updateCsiNode: (csiNode: CsiNode, signal) => asked(client.update(csiNodeResource, { name }, csiNode, signal)),
    deleteCsiNode: async ({ metadata: { uid } }, signal) => {
      const options = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid } };
      await asked(client.delete(csiNodeResource, { name }, options, signal)).catch((error: unknown) => {
        if (!(error instanceof NotFoundError)) throw error;
      });
    },
  };
}

async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const isDecided = error instanceof ApiError && error.code < 500 && error.code !== 429;
    if (isDecided && !(error instanceof UnauthorizedError)) throw error;
    throw new ClusterAwayError(messageOf(error), { cause: error });
  }
}

function unavailable(error: ApiError): CsiNodesUnavailableError {
  const text = 'CSI drivers of this node are unknown to the cluster, which has no CSINodes for it';
  return new CsiNodesUnavailableError(`${text}: ${error.message}`, { cause: error });
}
