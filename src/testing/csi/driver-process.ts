/** The test driver as a process of its own, which a test kills and starts again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CsiDriverSettings } from './csi-driver.ts';
import { DriverLog } from './driver-log.ts';
import type { DriverScript } from './driver-script.ts';

const program = fileURLToPath(new URL('../../../test/fixtures/csi-driver-program.js', import.meta.url));

export class DriverProcess {
  readonly settings: CsiDriverSettings;
  readonly log: DriverLog;
  readonly #under: readonly string[];
  #child: ChildProcess | undefined;

  /** `under` are the words of a program that runs another, such as nsenter. */
  constructor(
    test: { after(act: () => Promise<void>): void },
    settings: CsiDriverSettings,
    under: readonly string[] = [],
  ) {
    this.settings = settings;
    this.#under = under;
    this.log = new DriverLog(settings.directory);
    test.after(() => this.kill());
  }

  /** Of the one that runs, or ran last. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Resolves when it serves. */
  async start(): Promise<void> {
    const given = [process.execPath, program, JSON.stringify(this.settings), this.#scriptFile()];
    const [file = '', ...args] = [...this.#under, ...given];
    const child = spawn(file, args, {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child = child;
    await Promise.race([once(child.stdout, 'data'), this.ended()]);
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('the test driver ended while it started');
  }

  /** From the next call on. */
  script(script: DriverScript): void {
    const file = this.#scriptFile();
    mkdirSync(this.settings.directory, { recursive: true });
    writeFileSync(`${file}.next`, JSON.stringify(script));
    renameSync(`${file}.next`, file);
  }

  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL');
    await this.ended();
  }

  async ended(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    await once(child, 'exit');
  }

  #scriptFile(): string {
    return join(this.settings.directory, `script-${encodeURIComponent(this.settings.nodeId)}.json`);
  }
}
