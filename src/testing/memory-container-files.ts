/** The files of containers without a disk: a test reads and writes termination messages and logs as texts. */
import type { ContainerFiles } from '../pods/container-files.ts';
import { podUid } from '../pods/pod-names.ts';
import type { Pod } from '../kube/objects/pod.ts';

export class MemoryContainerFiles implements ContainerFiles {
  readonly messages = new Map<string, string>();
  readonly logs = new Map<string, string>();
  readonly directories = new Set<string>();
  readonly removedLogs: string[] = [];

  podDirectory(uid: string): string {
    return `/root/pods/${uid}`;
  }

  logDirectory(pod: Pod): string {
    return `/logs/${podUid(pod)}`;
  }

  async makePodDirectories(pod: Pod): Promise<void> {
    this.directories.add(podUid(pod));
  }

  makeMessageFile(uid: string, container: string, attempt: number): Promise<string> {
    const path = `/root/pods/${uid}/containers/${container}/${attempt}`;
    this.messages.set(path, '');
    return Promise.resolve(path);
  }

  readMessageFile(path: string, bytesMax: number): Promise<string> {
    return Promise.resolve((this.messages.get(path) ?? '').slice(0, bytesMax));
  }

  tailLog(path: string, bytesMax: number): Promise<string> {
    return Promise.resolve((this.logs.get(path) ?? '').slice(-bytesMax));
  }

  async removeLog(path: string): Promise<void> {
    this.removedLogs.push(path);
  }
}
