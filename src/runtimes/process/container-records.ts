/**
 * What the runtime knows of pods and containers, on disk: one file each, replaced by a rename. Never holds an environment
 * or a command line, whose values may be secret: those live with the container's processes.
 */
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ProcessName } from '../../linux/process-table.ts';
import { type PortMapping, RuntimeError } from '../runtime.ts';
import type { Identity } from './sandbox/container-program.ts';

export interface PodRecord {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly hostname: string;
  readonly hostPid: boolean;
  readonly hostIpc: boolean;
  readonly hostNetwork: boolean;
  readonly shareProcessNamespace: boolean;
  readonly directory: string;
  readonly logDirectory: string;
  readonly createdAtMs: number;
  readonly state: 'ready' | 'notReady';
  /** In a network of its own; absent: it has the machine's. */
  readonly address?: string;
  /** A file of the runtime that says how names are resolved; absent: as on the machine. */
  readonly resolver?: string;
  /** Those of the machine that lead to it; with an address alone. */
  readonly hostPorts?: readonly PortMapping[];
  /** Holds what its containers share; the first process of their pid namespace if they share that. */
  readonly holder?: ProcessName;
}

export interface ContainerRecord {
  readonly id: string;
  readonly podUid: string;
  readonly name: string;
  readonly attempt: number;
  readonly image: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Missing in records of earlier versions, which had them among the labels. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly logPath: string;
  readonly stopSignal: string;
  readonly stdin: 'none' | 'keep' | 'once';
  readonly tty: boolean;
  readonly identity: Identity;
  readonly createdAtMs: number;
  readonly run?: ContainerRun;
  readonly end?: ContainerEnd;
}

interface ContainerRun {
  readonly startedAtMs: number;
  /** Its first process; absent while it is being launched. */
  readonly main?: ProcessName;
}

export interface ContainerEnd {
  readonly finishedAtMs: number;
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string;
}

export class Records<T> {
  readonly #directory: string;
  readonly #byName = new Map<string, T>();
  readonly #onDisk = new Set<string>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  load(): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(this.#directory)) {
      const record = name.endsWith('.json') ? this.#read(name) : undefined;
      if (record === undefined) rmSync(join(this.#directory, name), { force: true }); // a write that was cut short
      else {
        this.#byName.set(name.slice(0, -'.json'.length), record);
        this.#onDisk.add(name.slice(0, -'.json'.length));
      }
    }
  }

  get(name: string): T | undefined {
    return this.#byName.get(name);
  }

  all(): T[] {
    return [...this.#byName.values()];
  }

  /** In memory only: what an earlier program left is known again from the spawner, or was nothing yet. */
  note(name: string, record: T): void {
    this.#byName.set(name, record);
  }

  put(name: string, record: T): void {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name))
      throw new RuntimeError(`Cannot keep "${name}": not a name for a file`);
    const path = join(this.#directory, `${name}.json`);
    // The first one replaces nothing, so that it needs no rename.
    const target = this.#onDisk.has(name) ? `${path}.new` : path;
    try {
      writeFileSync(target, JSON.stringify(record), { mode: 0o600 });
    } catch (thrown) {
      rmSync(target, { force: true }); // cut short
      throw thrown;
    }
    if (target !== path) renameSync(target, path);
    this.#onDisk.add(name);
    this.#byName.set(name, record);
  }

  /** A full disk ends neither containers nor the node: what cannot be written is kept in memory, and the answer is false. */
  keep(name: string, record: T): boolean {
    try {
      this.put(name, record);
      return true;
    } catch {
      this.note(name, record);
      return false;
    }
  }

  delete(name: string): void {
    this.#byName.delete(name);
    if (this.#onDisk.delete(name)) rmSync(join(this.#directory, `${name}.json`), { force: true });
  }

  /** A record that a crash of the machine cut short is useless: the processes it described are gone too. */
  #read(name: string): T | undefined {
    try {
      return JSON.parse(readFileSync(join(this.#directory, name), 'utf8')) as T;
    } catch (thrown) {
      if (thrown instanceof SyntaxError) return undefined;
      throw thrown;
    }
  }
}
