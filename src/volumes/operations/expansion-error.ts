/** Why a volume could not be grown, where it was not the plugin that failed. The texts are the kubelet's. */
import { MountletError } from '../../base/errors.ts';

export class ExpansionError extends MountletError {
  readonly reason = 'ExpansionFailed';
}
