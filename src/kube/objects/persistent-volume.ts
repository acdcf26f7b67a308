/** PersistentVolumes and claims: storage that outlives a pod, and the pod's name for it. */
import { foreignVolumeSources } from './foreign-volume-sources.ts';
import { labelSelector, objectFields, objectMeta, objectReference } from './metadata.ts';
import { any, atomic, boolean, granular, list, map, object, quantity, required, string } from './schema.ts';
import type { Of } from './schema.ts';

const resourceList = map(quantity);

export const nodeSelectorTerm = object({
  matchExpressions: list(object({ key: required(string), operator: required(string), values: list(string) })),
  matchFields: list(object({ key: required(string), operator: required(string), values: list(string) })),
});
export interface NodeSelectorTerm extends Of<typeof nodeSelectorTerm> {}

export const nodeSelector = atomic(object({ nodeSelectorTerms: required(list(nodeSelectorTerm)) }));
export interface NodeSelector extends Of<typeof nodeSelector> {}

const secretReference = atomic(object({ name: string, namespace: string }));

const localVolumeSource = object({ path: required(string), fsType: string });
export interface LocalVolumeSource extends Of<typeof localVolumeSource> {}

export const persistentVolume = object({
  ...objectFields,
  spec: required(
    object({
      capacity: resourceList,
      accessModes: list(string),
      claimRef: granular(objectReference),
      persistentVolumeReclaimPolicy: string,
      storageClassName: string,
      mountOptions: list(string),
      volumeMode: string,
      nodeAffinity: object({ required: nodeSelector }),
      volumeAttributesClassName: string,
      local: localVolumeSource,
      hostPath: object({ path: required(string), type: string }),
      nfs: object({ server: required(string), path: required(string), readOnly: boolean }),
      csi: object({
        driver: required(string),
        volumeHandle: required(string),
        readOnly: boolean,
        fsType: string,
        volumeAttributes: map(string),
        controllerPublishSecretRef: secretReference,
        nodeStageSecretRef: secretReference,
        nodePublishSecretRef: secretReference,
        controllerExpandSecretRef: secretReference,
        nodeExpandSecretRef: secretReference,
      }),
      ...foreignVolumeSources,
    }),
  ),
  status: object({ phase: string, message: string, reason: string, lastPhaseTransitionTime: string }),
});
export interface PersistentVolume extends Of<typeof persistentVolume> {}

const claimSpec = object({
  accessModes: list(string),
  selector: labelSelector,
  resources: object({ limits: resourceList, requests: resourceList }),
  volumeName: string,
  storageClassName: string,
  volumeMode: string,
  dataSource: atomic(object({ apiGroup: string, kind: required(string), name: required(string) })),
  dataSourceRef: object({ apiGroup: string, kind: required(string), name: required(string), namespace: string }),
  volumeAttributesClassName: string,
});
export interface ClaimSpec extends Of<typeof claimSpec> {}

export const claimTemplate = object({ metadata: objectMeta, spec: required(claimSpec) });
export interface ClaimTemplate extends Of<typeof claimTemplate> {}

export const persistentVolumeClaim = object({
  ...objectFields,
  spec: required(claimSpec),
  status: object({
    phase: string,
    accessModes: list(string),
    capacity: resourceList,
    conditions: list(
      object({
        type: required(string),
        status: required(string),
        lastProbeTime: string,
        lastTransitionTime: string,
        reason: string,
        message: string,
      }),
      'type',
    ),
    allocatedResources: resourceList,
    allocatedResourceStatuses: map(string),
    currentVolumeAttributesClassName: string,
    modifyVolumeStatus: object({ targetVolumeAttributesClassName: string, status: required(string) }),
    healthStatus: any,
  }),
});
export interface PersistentVolumeClaim extends Of<typeof persistentVolumeClaim> {}
