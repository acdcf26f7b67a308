/** The files that containers find at /etc/resolv.conf, for pods whose names are not resolved as the machine's: one for each. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DnsConfig } from '../../runtime.ts';

export class Resolvers {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Undefined for a pod that says nothing. */
  write(podUid: string, dns: DnsConfig): string | undefined {
    const text = resolverText(dns);
    if (text === '') return undefined;
    mkdirSync(this.#directory, { recursive: true, mode: 0o755 });
    const path = join(this.#directory, podUid);
    writeFileSync(path, text, { mode: 0o644 });
    return path;
  }

  remove(podUid: string): void {
    rmSync(join(this.#directory, podUid), { force: true });
  }

  sweep(isKnown: (podUid: string) => boolean): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o755 });
    for (const podUid of readdirSync(this.#directory)) if (!isKnown(podUid)) this.remove(podUid);
  }
}

/** Each value becomes one word of a line: what would begin another is left out. */
export function resolverText({ servers, searches, options }: DnsConfig): string {
  const words = (list: readonly string[]): string[] => list.filter((word) => /^[^\s#;]+$/.test(word));
  const line = (name: string, list: readonly string[]): string =>
    words(list).length === 0 ? '' : `${name} ${words(list).join(' ')}\n`;
  return [
    line('search', searches),
    ...servers.map((server) => line('nameserver', [server])),
    line('options', options),
  ].join('');
}
