/** Which Kubernetes the API server claims to be, because clients adapt to it; who it really is stands behind the plus sign. */
import { arch } from 'node:os';
import type { VersionInfo } from '../apiserver/path-handler.ts';

export const kubernetesVersion: VersionInfo = {
  major: '1',
  minor: '33',
  gitVersion: 'v1.33.0+mountlet',
  platform: `linux/${arch() === 'x64' ? 'amd64' : arch()}`,
};
