export { MountletError } from './base/errors.ts';
