/** Which Kubernetes the API server claims to be, because clients adapt to it; who it really is stands behind the plus sign. */
import type { VersionInfo } from '../apiserver/path-handler.ts';
import { goArchitecture } from './go-architecture.ts';

export const kubernetesVersion: VersionInfo = {
  major: '1',
  minor: '33',
  gitVersion: 'v1.33.0+mountlet',
  platform: `linux/${goArchitecture()}`,
};
