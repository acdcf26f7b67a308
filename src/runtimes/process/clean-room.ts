/** The container of ours that has no volumes and does nothing: its root is where exec.ts stands before it enters others. */
import type { ContainerRequest, PodRequest } from '../runtime.ts';

/** No pod has such a UID, and no list shows it. */
export const cleanRoomUid = 'clean-room';

export function cleanRoomPod(directory: string): PodRequest {
  return {
    uid: cleanRoomUid,
    namespace: 'mountlet',
    name: cleanRoomUid,
    hostname: '',
    hostNetwork: true,
    hostPid: false,
    hostIpc: false,
    shareProcessNamespace: false,
    sysctls: {},
    directory,
    logDirectory: directory,
    labels: {},
    resources: {},
  };
}

export const cleanRoomContainer: ContainerRequest = {
  podUid: cleanRoomUid,
  name: cleanRoomUid,
  attempt: 0,
  image: '',
  command: [],
  args: [],
  workingDirectory: '/',
  environment: [],
  mounts: [],
  devices: [],
  resources: {},
  labels: {},
  stopSignal: 'SIGTERM',
  logPath: 'log',
  stdin: false,
  stdinOnce: false,
  tty: false,
  security: {
    uid: undefined,
    gid: undefined,
    supplementalGroups: [],
    readOnlyRootFilesystem: true,
    privileged: false,
    noNewPrivileges: true,
    addCapabilities: [],
    dropCapabilities: ['ALL'],
  },
};
