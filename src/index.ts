export { MountletError } from './base/errors.ts';

export { AtomicWriter } from './disk/atomic-writer.ts';
export type { WriteOptions, WriteOutcome } from './disk/atomic-writer.ts';
export { InvalidPayloadPathError } from './disk/payload.ts';
export type { Payload, PayloadFile } from './disk/payload.ts';
export { OwnerRefusedError, VolumeWriteError } from './disk/volume-write-error.ts';
export { applyGroup } from './disk/ownership.ts';
export type { GroupChange, GroupOutcome, GroupProgress, GroupReporting } from './disk/ownership.ts';
