import { csiDriverShape, csiNodeShape } from '../../kube/kinds/storage/csi.ts';
import { claimTemplate, persistentVolumeClaimShape } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { persistentVolumeShape } from '../../kube/kinds/storage/persistent-volume.ts';
import { storageClassShape } from '../../kube/kinds/storage/storage-class.ts';
import { volumeAttachmentShape } from '../../kube/kinds/storage/volume-attachment.ts';
import type { Definition } from './definition.ts';
import { shapeAt } from './shape-at.ts';

const core = 'io.k8s.api.core.v1';
const metadata = 'Name, labels and the rest that every object has.';

export const storageDefinitions: readonly Definition[] = [
  {
    shape: persistentVolumeShape,
    text: 'Storage that outlives pods.',
    fields: { metadata, spec: 'What it is and whose.', status: 'Whether it is free or in use.' },
  },
  {
    shape: shapeAt(persistentVolumeShape, 'spec'),
    name: `${core}.PersistentVolumeSpec`,
    text: 'What a volume is and whose. Its source cannot be changed.',
    fields: {
      capacity: 'How much it holds.',
      accessModes: 'ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod.',
      claimRef: 'The claim it belongs to.',
      persistentVolumeReclaimPolicy: 'What happens when the claim is gone: Retain, Delete or Recycle.',
      storageClassName: 'The class it is of.',
      mountOptions: 'Options of the mount.',
      volumeMode: 'Filesystem or Block.',
      nodeAffinity: 'The nodes that can reach it.',
      volumeAttributesClassName: 'The class of its changeable attributes.',
      local: 'A directory or device of one node.',
      hostPath: 'A directory of the node, for trying things out.',
      nfs: 'A directory that an NFS server exports.',
      csi: 'A volume of a CSI driver.',
    },
  },
  {
    shape: persistentVolumeClaimShape,
    text: 'The wish for storage, and the storage it got.',
    fields: { metadata, spec: 'What is wished for.', status: 'What it got.' },
  },
  {
    shape: shapeAt(persistentVolumeClaimShape, 'spec'),
    name: `${core}.PersistentVolumeClaimSpec`,
    text: 'What storage is wished for.',
    fields: {
      accessModes: 'ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod.',
      selector: 'The labels of volumes that will do.',
      resources: 'How much is wished for.',
      volumeName: 'The volume it has.',
      storageClassName: 'The class that is wished for.',
      volumeMode: 'Filesystem or Block.',
      dataSource: 'What the volume is filled with.',
      dataSourceRef: 'What the volume is filled with, of any kind.',
      volumeAttributesClassName: 'The class of changeable attributes that is wished for.',
    },
  },
  {
    shape: claimTemplate,
    name: `${core}.PersistentVolumeClaimTemplate`,
    text: 'The claim that is made for a pod.',
    fields: { metadata: 'Labels and annotations of the claim.', spec: 'What is wished for.' },
  },
  {
    shape: storageClassShape,
    text: 'A class of storage: who makes volumes of it, and how.',
    fields: {
      metadata,
      provisioner: 'Who makes the volumes.',
      parameters: 'What the provisioner needs to know.',
      reclaimPolicy: 'What happens to a volume when its claim is gone; Delete if absent.',
      mountOptions: 'Options of the mounts.',
      allowVolumeExpansion: 'Whether volumes may grow.',
      volumeBindingMode: 'When a volume is chosen: Immediate or WaitForFirstConsumer.',
      allowedTopologies: 'Where volumes may be.',
    },
  },
  {
    shape: csiNodeShape,
    text: 'The CSI drivers of a node.',
    fields: { metadata, spec: 'The drivers.', status: 'How their storage is.' },
  },
  {
    shape: csiDriverShape,
    text: 'A CSI driver and what it needs.',
    fields: { metadata, spec: 'What it needs.' },
  },
  {
    shape: volumeAttachmentShape,
    text: 'The wish to attach a volume to a node.',
    fields: { metadata, spec: 'What to attach, and where. It cannot be changed.', status: 'What came of it.' },
  },
];
