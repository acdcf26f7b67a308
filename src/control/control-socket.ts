/**
 * Where the socket of a node is: in a directory of its own below the node's root, which only the node's user can enter. Both ends
 * reach it by an open directory, because the kernel takes no path of more than 107 bytes for a socket.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';

interface ControlAddress {
  /** Valid until it is closed. */
  readonly path: string;
  close(): void;
}

export function controlDirectory(root: string): string {
  return join(root, 'control');
}

/** Throws a system error where there is no such directory, or another user's. */
export function openAddress(root: string): ControlAddress {
  const descriptor = openSync(controlDirectory(root), constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: `/proc/self/fd/${descriptor}/node.sock`, close: () => closeSync(descriptor) };
}

/** The one path that is served so far. */
export const volumesPath = '/v1/volumes';
