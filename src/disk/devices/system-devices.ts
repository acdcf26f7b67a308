/** Whether somebody on this machine still uses a device that should be free. Nothing is written here. */
import { constants } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { errorCode } from '../../base/errors.ts';
import { systemCallError } from '../system-call-error.ts';

export class SystemDevices {
  /** False for a path that is missing or is no device. */
  async isDevice(path: string): Promise<boolean> {
    try {
      const status = await stat(path);
      return status.isBlockDevice() || status.isCharacterDevice();
    } catch (error) {
      if (isMissing(error)) return false;
      throw systemCallError(error, path);
    }
  }

  /**
   * Mounted, or part of another device: those are the ones that claim it. A program that merely has it open does not, which
   * is as much as the kubelet asks.
   */
  async isOpen(path: string): Promise<boolean> {
    const { O_RDONLY, O_EXCL, O_NONBLOCK } = constants;
    try {
      await (await open(path, O_RDONLY | O_EXCL | O_NONBLOCK)).close();
      return false;
    } catch (error) {
      if (errorCode(error) === 'EBUSY') return true;
      if (isMissing(error)) return false;
      throw systemCallError(error, path);
    }
  }
}

/** No such path, or no device behind it any more. */
function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'ENXIO', 'ENODEV', 'ENOMEDIUM'].includes(errorCode(error) ?? '');
}
