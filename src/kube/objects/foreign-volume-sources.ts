/** Storage that no plugin of ours reads, for pods and PersistentVolumes alike: it is carried along and counts as a source. */
import { any } from './schema.ts';

export const foreignVolumeSources = {
  awsElasticBlockStore: any,
  azureDisk: any,
  azureFile: any,
  cephfs: any,
  cinder: any,
  fc: any,
  flexVolume: any,
  flocker: any,
  gcePersistentDisk: any,
  glusterfs: any,
  iscsi: any,
  photonPersistentDisk: any,
  portworxVolume: any,
  quobyte: any,
  rbd: any,
  scaleIO: any,
  storageos: any,
  vsphereVolume: any,
};
